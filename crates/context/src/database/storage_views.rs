//! `saki.chunks`, `saki.parts`, `saki.devices`, `saki.tier` and `saki.logs`: where the database lies and how it is
//! doing.

use std::fmt;
use std::sync::{Arc, Weak};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use saki_base::CHUNK_BYTES;

use saki_catalog::Result;
use saki_store::{ChunkOwners, Database};
use saki_system::{SystemView, SystemViews};

/// Makes the views known.
pub fn register(views: &SystemViews, database: &Arc<Database>) {
    for (name, texts, numbers, rows) in [CHUNKS, PARTS, DEVICES, LOGS, TIER] {
        let text = |text: &&str| Field::new(*text, DataType::Utf8, false);
        let number = |number: &&str| Field::new(*number, DataType::Int64, true);
        let fields = texts.iter().map(text).chain(numbers.iter().map(number));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        views.register(Arc::new(View { name, schema, rows, database: Arc::downgrade(database) }));
    }
}

/// A device or file and other texts, and numbers.
type Row = (Vec<String>, Vec<Option<u64>>);

/// Name, columns of text, columns of numbers, and what has the rows.
type Definition = (&'static str, &'static [&'static str], &'static [&'static str], fn(&Database) -> Vec<Row>);

/// Pieces of 1 MiB in which space is given out and moved; what tables and parts of these lie in each.
const CHUNKS: Definition = (
    "chunks",
    &["device", "tables", "parts"],
    &["chunk", "slot", "live_pages", "live_bytes", "device_number", "copy_device", "copy_slot", "heat_micros"],
    chunks,
);

/// Parts of tables, how large they are, and how much of them lies on fast devices.
const PARTS: Definition = ("parts", &["table_name", "part"], &["bytes", "copied_bytes", "heat_micros"], parts);

const DEVICES: Definition = (
    "devices",
    &["device", "class", "role", "state"],
    &[
        "number",
        "page_bytes",
        "total_bytes",
        "used_bytes",
        "free_bytes",
        "pending_bytes",
        "journal_bytes",
        "chunks",
        "copies",
        "live_pages",
        "generation",
        "reads_in_flight",
        "reads_in_flight_max",
        "reads",
        "read_bytes",
        "read_micros",
        "written_bytes",
    ],
    devices,
);

/// What chooses the copies on fast devices, and what has moved since the database was opened.
const TIER: Definition =
    ("tier", &["policy"], &["copies", "promoted", "evicted", "failures", "copies_distrusted"], tier);

/// Counters since the logs were opened, and sizes as they are.
const LOGS: Definition = (
    "logs",
    &["device"],
    &[
        "log",
        "records",
        "record_bytes",
        "writes",
        "written_bytes",
        "flushes",
        "queued_bytes",
        "waits",
        "extents_live",
        "extents_ready",
        "extents_free",
        "extent_bytes",
        "durable_through",
        "merged_through",
    ],
    logs,
);

fn chunks(database: &Database) -> Vec<Row> {
    let (volume, page_size) = (database.volume(), database.page_size());
    let heats = database.tier().heats();
    let owners = ChunkOwners::new(&database.generation().catalog);
    let row = |chunk: saki_store::PublishedChunk| {
        let bytes = u64::from(chunk.live_pages) * page_size.bytes() as u64;
        let numbers = vec![
            Some(chunk.chunk.0),
            Some(chunk.home.slot),
            Some(u64::from(chunk.live_pages)),
            Some(bytes),
            Some(u64::from(chunk.home.device.0)),
            chunk.copy.map(|copy| u64::from(copy.device.0)),
            chunk.copy.map(|copy| copy.slot),
            heats.get(&chunk.chunk).map(|heat| (heat * 1e6) as u64),
        ];
        let (tables, parts) = owners.describe(&chunk.parts);
        (vec![volume.name_of(chunk.home.device), tables, parts], numbers)
    };
    volume.published_chunks().into_iter().map(row).collect()
}

fn parts(database: &Database) -> Vec<Row> {
    let row = |(owner, part): (saki_store::Owner, saki_store::PartStatus)| {
        let numbers = [part.bytes, part.copied_bytes, part.heat * 1e6].map(|number| Some(number.round() as u64));
        (vec![owner.table, owner.part], numbers.to_vec())
    };
    database.parts().into_iter().map(row).collect()
}

fn devices(database: &Database) -> Vec<Row> {
    let volume = database.volume();
    let generation = volume.generation().0;
    let bytes = |slots: u64| slots * CHUNK_BYTES as u64;
    let row = |device: saki_store::DeviceStatus| {
        let slots = device.slots;
        let numbers = [
            u64::from(device.entry.number.0),
            database.page_size().bytes() as u64,
            bytes(slots.total),
            bytes(slots.total - slots.free),
            bytes(slots.free),
            bytes(slots.pending),
            bytes(device.journal_slots),
            slots.homes,
            slots.copies,
            slots.live_pages,
            generation,
            u64::from(device.reads_in_flight),
            u64::from(device.reads_in_flight_max),
            device.reads.requests,
            device.reads.bytes,
            device.reads.latency.as_micros() as u64,
            device.written_bytes,
        ];
        let state = device.missing.map_or_else(|| "online".to_owned(), |reason| format!("missing: {reason}"));
        let texts = vec![device.name, device.entry.class.to_string(), device.entry.role.to_string(), state];
        (texts, numbers.map(Some).to_vec())
    };
    volume.devices().into_iter().map(row).collect()
}

fn tier(database: &Database) -> Vec<Row> {
    let (tier, volume) = (database.tier(), database.volume());
    let stats = tier.stats();
    let copies = volume.copies().len() as u64;
    let numbers = [copies, stats.promoted, stats.evicted, stats.failures, volume.copies_distrusted()];
    vec![(vec![tier.policy().to_string()], numbers.map(Some).to_vec())]
}

fn logs(database: &Database) -> Vec<Row> {
    let Some(engine) = database.engine.get() else { return Vec::new() };
    let merged_through = database.generation().catalog.logs.merged_through;
    let directory = database.logs.name();
    let row = |(log, of): (usize, saki_mvcc::LogStatistics)| {
        let numbers = [
            log as u64,
            of.records,
            of.record_bytes,
            of.writes,
            of.written_bytes,
            of.flushes,
            of.queued_bytes,
            of.waits,
            of.extents_live,
            of.extents_ready,
            of.extents_free,
            engine.extent_bytes,
            engine.database.durable(),
            merged_through,
        ];
        (vec![directory.clone()], numbers.map(Some).to_vec())
    };
    engine.database.log_statistics().into_iter().enumerate().map(row).collect()
}

struct View {
    name: &'static str,
    schema: SchemaRef,
    rows: fn(&Database) -> Vec<Row>,
    database: Weak<Database>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SystemView for View {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let rows = self.database.upgrade().map(|database| (self.rows)(&database)).unwrap_or_default();
        let is_text = |field: &&Arc<Field>| *field.data_type() == DataType::Utf8;
        let texts = self.schema.fields().iter().filter(is_text).count();
        let text = |place: usize| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(texts, _)| &texts[place])))
        };
        let number = |place: usize| -> ArrayRef {
            let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let of_row = |(_, numbers): &Row| numbers.get(place).copied().flatten().map(signed);
            Arc::new(Int64Array::from_iter(rows.iter().map(of_row)))
        };
        let numbers = (0..self.schema.fields().len() - texts).map(number);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), (0..texts).map(text).chain(numbers).collect())?)
    }
}
