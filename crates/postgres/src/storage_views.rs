//! `saki.chunks`, `saki.devices` and `saki.logs`: where the database lies and how it is doing.

use std::fmt;
use std::sync::{Arc, Weak};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use saki_base::{CHUNK_BYTES, PageAddress};

use crate::pg_catalog::{SystemView, SystemViews};
use saki_catalog::Result;
use saki_store::Database;

/// Makes the views known.
pub fn register(views: &SystemViews, database: &Arc<Database>) {
    for (name, numbers, rows) in [CHUNKS, DEVICES, LOGS] {
        let fields = std::iter::once(Field::new("device", DataType::Utf8, false))
            .chain(numbers.iter().map(|number| Field::new(*number, DataType::Int64, true)));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        views.register(Arc::new(View { name, schema, rows, database: Arc::downgrade(database) }));
    }
}

/// A device or file, and numbers.
type Row = (String, Vec<Option<u64>>);

/// Name, columns behind the device's name, and what has the rows.
type Definition = (&'static str, &'static [&'static str], fn(&Database) -> Vec<Row>);

/// Pieces of 1 MiB in which space is given out and moved.
const CHUNKS: Definition = ("chunks", &["chunk", "slot", "live_pages", "live_bytes"], chunks);

const DEVICES: Definition = (
    "devices",
    &[
        "page_bytes",
        "total_bytes",
        "used_bytes",
        "free_bytes",
        "pending_bytes",
        "scratch_bytes",
        "chunks",
        "live_pages",
        "generation",
        "reads_in_flight",
        "reads_in_flight_max",
    ],
    devices,
);

/// Counters since the logs were opened, and sizes as they are.
const LOGS: Definition = (
    "logs",
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
    let row = |(chunk, live): (saki_base::ChunkId, u32)| {
        let first = PageAddress(chunk.0 * page_size.pages_per_chunk());
        let slot = volume.locate(first).map(|location| location.offset() / CHUNK_BYTES as u64);
        let bytes = u64::from(live) * page_size.bytes() as u64;
        (database.device_name(), vec![Some(chunk.0), slot, Some(u64::from(live)), Some(bytes)])
    };
    volume.live_pages().into_iter().map(row).collect()
}

fn devices(database: &Database) -> Vec<Row> {
    let volume = database.volume();
    let (stats, governor) = (volume.stats(), volume.governor());
    let slots = |slots: u64| slots * CHUNK_BYTES as u64;
    let numbers = [
        database.page_size().bytes() as u64,
        slots(stats.total_slots),
        stats.used_bytes,
        slots(stats.free_slots),
        slots(stats.pending_slots),
        slots(stats.scratch_slots),
        stats.chunks,
        stats.live_pages,
        volume.generation().0,
        u64::from(governor.in_flight()),
        u64::from(governor.limit()),
    ];
    vec![(database.device_name(), numbers.map(Some).to_vec())]
}

fn logs(database: &Database) -> Vec<Row> {
    let Some(engine) = database.engine.get() else { return Vec::new() };
    let merged_through = database.snapshot().catalog.logs.merged_through;
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
        (directory.clone(), numbers.map(Some).to_vec())
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
        let device: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(device, _)| device)));
        let number = |place: usize| -> ArrayRef {
            let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let of_row = |(_, numbers): &Row| numbers.get(place).copied().flatten().map(signed);
            Arc::new(Int64Array::from_iter(rows.iter().map(of_row)))
        };
        let numbers = (0..self.schema.fields().len() - 1).map(number);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), std::iter::once(device).chain(numbers).collect())?)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planner, answer};

    #[test]
    fn devices_tell_how_full_they_are() {
        Planner::new().check(&[
            (
                "select page_bytes > 0, total_bytes >= used_bytes, free_bytes <= total_bytes, device <> '', \
                 reads_in_flight, reads_in_flight_max > 0 from saki.devices",
                "true|true|true|true|0|true",
            ),
            ("select count(*) from saki.devices", "1"),
        ]);
    }

    #[test]
    fn chunks_add_up_to_what_devices_say() {
        Planner::new().check(&[
            (
                "select coalesce((select sum(live_pages) from saki.chunks), 0) = (select sum(live_pages) \
                 from saki.devices)",
                "true",
            ),
            ("select count(*) from saki.chunks where live_bytes > 1048576 or live_pages < 0", "0"),
            ("select count(*) = count(distinct slot) from saki.chunks where slot is not null", "true"),
        ]);
    }

    #[test]
    fn a_database_without_logs_has_no_rows_of_them() {
        let planner = Planner::new();
        let (names, rows) = answer(&planner.context, "select * from saki.logs").unwrap();
        assert_eq!(names.len(), 15);
        assert_eq!((names[0].as_str(), names[1].as_str()), ("device", "log"));
        assert!(rows.is_empty());
    }
}
