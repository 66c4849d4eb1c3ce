//! A table in segments on a simulated device, and the same rows in memory.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, BooleanArray, Date32Array, Int64Array};
use saki_base::{AlignedBuffer, Buffer, DataType, KeyColumn, KeyLayout, PageSize, Random, TreeId, ValueRef};
use saki_columns::{BuildOptions, ColumnCache, ColumnType, SegmentBuilder, SegmentTable, codec};
use saki_exec::SegmentReader;
use saki_io::{Device, Operation, SimDevice, SimOptions, SimTiming, Wait};
use saki_page::{IoShare, PageCache, PageStore, PagedRuns, RunStore};
use saki_tree::TreeReader;
use saki_vector::{Batch, Column};
use saki_volume::{Volume, VolumeOptions};

/// One row, as the naive scan sees it.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub struct Row {
    pub id: i64,
    pub day: Option<i32>,
    /// Unscaled, two digits after the point.
    pub quantity: i64,
    pub name: Option<String>,
    pub comment: String,
    pub flag: Option<bool>,
}

pub const ID: usize = 0;
pub const DAY: usize = 1;
pub const QUANTITY: usize = 2;
pub const NAME: usize = 3;
pub const COMMENT: usize = 4;
pub const FLAG: usize = 5;

pub const NAMES: [&str; 6] = ["amber", "amberly", "basalt", "coral", "drift", "ember"];

impl Row {
    /// A column's value as text; NULL is nothing.
    pub fn text(&self, column: usize) -> Option<String> {
        match column {
            ID => Some(self.id.to_string()),
            DAY => self.day.map(|day| day.to_string()),
            QUANTITY => Some(self.quantity.to_string()),
            NAME => self.name.clone(),
            COMMENT => Some(self.comment.clone()),
            _ => self.flag.map(|flag| flag.to_string()),
        }
    }
}

/// Rows whose days rise with their ids, so that zones mean something.
pub fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut random = Random::new(seed);
    let row = |id: usize| Row {
        id: id as i64 * 3,
        day: (!random.chance(0.03)).then(|| 9000 + (id / 50) as i32 + random.range(0..20) as i32),
        quantity: random.range(1..5001) as i64,
        name: (!random.chance(0.05)).then(|| NAMES[random.range(0..6) as usize].to_owned()),
        comment: format!("{:x} of many and various things", random.next_u64()),
        flag: (!random.chance(0.2)).then(|| random.chance(0.5)),
    };
    (0..count).map(row).collect()
}

pub fn column_types() -> Vec<ColumnType> {
    let column = |name: &str, data_type, nullable| ColumnType { name: name.into(), data_type, nullable, missing: None };
    vec![
        column("id", DataType::Int8, false),
        column("day", DataType::Date, true),
        column("quantity", DataType::Decimal { precision: 15, scale: 2 }, false),
        column("name", DataType::Varchar(20), true),
        column("comment", DataType::Text, false),
        column("flag", DataType::Bool, true),
    ]
}

/// Rows in the form that segments give.
pub fn batch(rows: &[Row]) -> Batch {
    let mut names = StringViewBuilder::new();
    rows.iter().for_each(|row| names.append_option(row.name.as_ref()));
    let mut comments = StringViewBuilder::new();
    rows.iter().for_each(|row| comments.append_value(&row.comment));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.day).collect::<Date32Array>()),
        Arc::new(rows.iter().map(|row| row.quantity).collect::<Int64Array>()),
        Arc::new(names.finish()),
        Arc::new(comments.finish()),
        Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()),
    ];
    Batch::new(arrays.into_iter().map(Column::new).collect(), rows.len())
}

/// The primary key: the id.
pub fn key_layout() -> KeyLayout {
    KeyLayout::new([KeyColumn { data_type: DataType::Int8, nullable: false, descending: false }])
}

pub fn key(id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    key_layout().encode(&[ValueRef::Int8(id)], &mut key).unwrap();
    key
}

/// A table and what it lies on.
pub struct Fixture {
    pub device: Arc<SimDevice>,
    pub volume: Arc<Volume>,
    pub table: Arc<SegmentTable>,
}

impl Fixture {
    /// Writes the rows in segments of `segment_rows`.
    pub fn new(seed: u64, rows: &[Row], segment_rows: usize) -> Self {
        let device =
            SimDevice::new(SimOptions { seed, length_bytes: 0, timing: SimTiming::Immediate, ..SimOptions::default() });
        let page_size = PageSize::new(4096).unwrap();
        let options = VolumeOptions { database_id: Some(1), ..VolumeOptions::new(page_size) };
        let volume = Volume::create(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        let publication = volume.begin();
        let codec = codec();
        let options = BuildOptions { rows: segment_rows as u32, threads: 1, ..BuildOptions::default() };
        let mut builder = SegmentBuilder::new(&*codec, column_types(), TreeId(1), publication.writer(), options);
        builder.push(&batch(rows), &mut |row| Ok(key(rows[row].id))).unwrap();
        let (root, writer) = builder.finish(page_size).unwrap();
        writer.finish().unwrap();
        publication.commit(b"root").unwrap();
        let cache = PageCache::new(page_size, 64).unwrap();
        let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
        let mut reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX)).unwrap();
        let table = SegmentTable::read(&mut reader, &root, "things".into(), &column_types().into()).unwrap();
        assert_eq!(table.rows, rows.len() as u64);
        Self { device, volume, table: Arc::new(table) }
    }

    /// Overwrites bytes of the device.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) {
        let mut buffer = AlignedBuffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        let mut lane = self.device.open_lane(None).unwrap();
        lane.submit(Operation::write(0, offset, Buffer::Aligned(buffer)));
        let mut completions = Vec::new();
        while completions.is_empty() {
            lane.poll(Wait::No, &mut completions);
        }
        completions[0].result.as_ref().unwrap();
    }

    /// A reader with a cache of so many bytes.
    pub fn reader(&self, cache_bytes: usize) -> Arc<SegmentReader> {
        let runs: Arc<dyn RunStore> = Arc::clone(&self.volume) as _;
        SegmentReader::start(&runs, ColumnCache::new(cache_bytes), codec()).unwrap()
    }

    /// One that knows no way to runs but by their pages, as of another node's.
    pub fn reader_by_pages(&self, cache_bytes: usize) -> Arc<SegmentReader> {
        let pages: Arc<dyn PageStore> = Arc::clone(&self.volume) as _;
        let runs: Arc<dyn RunStore> = PagedRuns::over(pages, 64 << 10);
        SegmentReader::start(&runs, ColumnCache::new(cache_bytes), codec()).unwrap()
    }
}
