//! What a client is told: each function appends one message.

use bytes::{BufMut, BytesMut};

use crate::failure::Failure;
use crate::types::encode::Column;
use crate::types::{Format, WireType, sized};

/// Appends a message of type `kind` with the body that `write` appends.
///
/// A body above 2 GiB cannot be stated; rows are bounded by the memory of a batch, far below.
pub fn message(out: &mut BytesMut, kind: u8, write: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    sized(out, true, write);
}

fn text(out: &mut BytesMut, text: &str) {
    // A zero byte would end the text early and shift all that follows.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.put_u8(0);
}

pub fn authentication_ok(out: &mut BytesMut) {
    message(out, b'R', |out| out.put_i32(0));
}

pub fn authentication_sasl(out: &mut BytesMut, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        out.put_i32(10);
        mechanisms.iter().for_each(|mechanism| text(out, mechanism));
        out.put_u8(0);
    });
}

/// The server's part of SCRAM; the last if `last`.
pub fn authentication_sasl_data(out: &mut BytesMut, last: bool, data: &str) {
    message(out, b'R', |out| {
        out.put_i32(if last { 12 } else { 11 });
        out.put_slice(data.as_bytes());
    });
}

pub fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

pub fn backend_key(out: &mut BytesMut, process: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.put_i32(process);
        out.put_slice(secret);
    });
}

/// The newest minor version spoken here, and the options of the client's that are not known.
pub fn negotiate_version(out: &mut BytesMut, unknown: &[&str]) {
    message(out, b'v', |out| {
        out.put_i32(3 << 16);
        out.put_i32(unknown.len() as i32);
        unknown.iter().for_each(|name| text(out, name));
    });
}

/// `status`: `I` idle, `T` in a transaction, `E` in one that failed.
pub fn ready(out: &mut BytesMut, status: u8) {
    message(out, b'Z', |out| out.put_u8(status));
}

pub fn parse_complete(out: &mut BytesMut) {
    message(out, b'1', |_| ());
}

pub fn bind_complete(out: &mut BytesMut) {
    message(out, b'2', |_| ());
}

pub fn close_complete(out: &mut BytesMut) {
    message(out, b'3', |_| ());
}

pub fn no_data(out: &mut BytesMut) {
    message(out, b'n', |_| ());
}

pub fn empty_query(out: &mut BytesMut) {
    message(out, b'I', |_| ());
}

pub fn portal_suspended(out: &mut BytesMut) {
    message(out, b's', |_| ());
}

/// A finished command: `INSERT 0 3`, `SELECT 5`, `BEGIN`.
pub fn command_complete(out: &mut BytesMut, tag: &str, rows: u64) {
    use std::fmt::Write as _;
    message(out, b'C', |out| {
        // Writing to a buffer in memory cannot fail.
        let _ = match tag {
            "INSERT" => write!(out, "INSERT 0 {rows}"),
            "SELECT" | "UPDATE" | "DELETE" | "MERGE" | "COPY" | "FETCH" | "MOVE" => write!(out, "{tag} {rows}"),
            _ => out.write_str(tag),
        };
        out.put_u8(0);
    });
}

pub fn parameter_description(out: &mut BytesMut, types: impl ExactSizeIterator<Item = u32>) {
    message(out, b't', |out| {
        out.put_u16(types.len() as u16);
        types.for_each(|oid| out.put_u32(oid));
    });
}

/// Names, types and formats of a result's columns.
pub fn row_description<'a>(out: &mut BytesMut, columns: impl ExactSizeIterator<Item = (&'a str, WireType, Format)>) {
    message(out, b'T', |out| {
        out.put_u16(columns.len() as u16);
        for (name, wire, format) in columns {
            text(out, name);
            let (table, column) = wire.column;
            out.put_u32(table);
            out.put_i16(column);
            out.put_u32(wire.oid);
            out.put_i16(wire.size);
            out.put_i32(wire.modifier);
            out.put_u16(format.code());
        }
    });
}

/// Answers COPY: `kind` is `G` for rows in and `H` for rows out.
pub fn copy_response(out: &mut BytesMut, kind: u8, format: Format, columns: usize) {
    message(out, kind, |out| {
        out.put_u8(format.code() as u8);
        out.put_u16(columns as u16);
        (0..columns).for_each(|_| out.put_u16(format.code()));
    });
}

pub fn copy_data(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    message(out, b'd', write);
}

pub fn copy_done(out: &mut BytesMut) {
    message(out, b'c', |_| ());
}

/// An error, or a notice: the fields are the same.
pub fn failure(out: &mut BytesMut, failure: &Failure) {
    message(out, if failure.severity.is_error() { b'E' } else { b'N' }, |out| {
        let mut field = |name: u8, value: &str| {
            out.put_u8(name);
            text(out, value);
        };
        field(b'S', failure.severity.name());
        field(b'V', failure.severity.name());
        field(b'C', failure.code);
        field(b'M', &failure.message);
        if let Some(detail) = &failure.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &failure.hint {
            field(b'H', hint);
        }
        if let Some(objects) = &failure.objects {
            field(b's', &objects.schema);
            field(b't', &objects.table);
            objects.column.iter().for_each(|name| field(b'c', name));
            objects.constraint.iter().for_each(|name| field(b'n', name));
        }
        if let Some(routine) = failure.routine {
            field(b'R', routine);
        }
        if let Some(position) = failure.position {
            field(b'P', &position.to_string());
        }
        out.put_u8(0);
    });
}

/// Appends one row as a message.
pub fn data_row(columns: &[Column], row: usize, out: &mut BytesMut) {
    message(out, b'D', |out| {
        out.put_u16(columns.len() as u16);
        columns.iter().for_each(|column| column.field(row, out));
    });
}
