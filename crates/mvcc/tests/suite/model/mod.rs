//! The engine against a simple model: a map that is cloned for every snapshot.
//!
//! Several runners, interleaved by one thread, do random things. The model says what each gives, to the letter: also
//! which writes meet a conflict, since the first writer of a row wins. Then, after every commit and abort, everything
//! is read by a new snapshot and compared, rows and all indexes. And every serializable transaction that was committed
//! is run again on the state before its timestamp: had it run there, alone, it would have seen the same.
//!
//! - `things`: the table · `operation`: what is done · `world`: engine and model side by side · `tests`: without and
//!   with restarts

mod operation;
mod tests;
mod things;
mod world;

use saki_base::Value;
use saki_mvcc::Table;

use things::{COLOURS, NAMES, Thing};

fn decode(table: &Table, key: &[u8], body: &[u8]) -> Thing {
    let number = |texts: &[&str], value: &Value| match value {
        Value::Text(text) => Some(texts.iter().position(|known| known == text).expect("a known text") as u8),
        _ => None,
    };
    let values = table.decode(key, body).expect("a row of the table");
    let [_, colour, name, Value::Int8(size), Value::Text(note)] = &values[..] else { panic!("{values:?}") };
    let (colour, name) = (number(&COLOURS, colour), number(&NAMES, name));
    Thing { colour, name, size: *size, note: note.len() as u16 }
}
