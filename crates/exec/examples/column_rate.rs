//! TPC-H query 6 over columns like lineitem's, without SQL above: rows a second and core from memory, and bytes a
//! second from the device beside what it gives to large reads alone. `cargo run --release -p saki-exec --example
//! column_rate -- FILE [ROWS] [PARTITIONS] [HIDDEN]`: of every so many rows, one is hidden (0, as if not said: none).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Date32Array, Int64Array};
use arrow_schema::DataType as ArrowType;
use saki_base::value::Value;
use saki_base::{AlignedBuffer, Buffer, DataType, PageSize, Random, TreeId};
use saki_columns::{BuildOptions, ColumnCache, ColumnType, SegmentBuilder, SegmentTable, codec};
use saki_exec::{ColumnOverlay, ColumnScan, ExecError, ExecutionOptions, ScanExecution, SegmentReader};
use saki_io::{Device, DeviceOptions, Operation, Wait, open_device};
use saki_page::{IoShare, PageCache, PageStore, RunStore};
use saki_tree::TreeReader;
use saki_vector::expr::CompareOp;
use saki_vector::{Batch, Column, Expr};
use saki_volume::{Volume, VolumeOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const SHIPDATE: usize = 0;
const DISCOUNT: usize = 1;
const QUANTITY: usize = 2;
const PRICE: usize = 3;
/// Runs of which the best counts.
const REPEATS: usize = 9;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).cloned().unwrap_or_else(|| "/tmp/column_rate.saki".into());
    let rows: usize = arguments.get(2).map_or(Ok(6_000_000), |text| text.parse())?;
    let partitions: usize = arguments.get(3).map_or(Ok(2), |text| text.parse())?;
    let hidden: u32 = arguments.get(4).map_or(Ok(0), |text| text.parse())?;
    let _ = std::fs::remove_file(&path);
    let device = open_device(std::path::Path::new(&path), DeviceOptions { create: true, ..DeviceOptions::default() })?;
    let volume = Volume::create(Arc::clone(&device), VolumeOptions::new(PageSize::new(8192)?))?;
    let begun = Instant::now();
    let table = Arc::new(write(&volume, rows)?);
    let bytes: u64 = table.segments.iter().map(saki_columns::Segment::bytes).sum();
    println!(
        "{rows} rows in {} segments, {:.1} bytes a row, written in {:.1} s",
        table.segments.len(),
        bytes as f64 / rows as f64,
        begun.elapsed().as_secs_f64()
    );

    let runs: Arc<dyn RunStore> = Arc::clone(&volume) as _;
    let reader = SegmentReader::start(&runs, ColumnCache::new(4 << 30), codec())?;
    let positions = |rows: u32| (0..rows).step_by(hidden.max(1) as usize).collect::<Arc<[u32]>>();
    let masks = table.segments.iter().map(|segment| positions(segment.rows)).collect();
    let overlay = (hidden > 0).then(|| Arc::new(Hidden(masks)) as Arc<dyn ColumnOverlay>);
    let query = |partitions: usize| {
        let scan = ColumnScan {
            overlay_apart: false,
            table: Arc::clone(&table),
            output: vec![PRICE, DISCOUNT],
            filter: filter(),
            keys: Vec::new(),
            limit: None,
            snapshot: volume.hold(),
            overlay: overlay.clone(),
        };
        reader.run(scan, &ExecutionOptions { partitions, ..ExecutionOptions::default() })
    };
    for (name, cold) in [("cold", true), ("hot", false)] {
        for partitions in [1, partitions] {
            let mut runs = Vec::with_capacity(REPEATS);
            for _ in 0..REPEATS {
                if cold {
                    reader.cache().clear();
                }
                let run = query(partitions);
                let (wall, processor) = (Instant::now(), on_processor()?);
                let sum = revenue(&run)?;
                runs.push((wall.elapsed(), on_processor()?.saturating_sub(processor), sum, run));
            }
            report(name, rows, &runs)?;
        }
    }
    println!("kept: {:.1} bytes a row", reader.cache().bytes() as f64 / rows as f64);
    println!("device: {:.0} MB/s in reads of 1 MiB", sequential(&*device, volume.stats().used_bytes)? / 1e6);
    std::fs::remove_file(&path)?;
    Ok(())
}

/// Positions of hidden rows, by segment; no rows instead of them.
#[derive(Debug)]
struct Hidden(Vec<Arc<[u32]>>);

impl ColumnOverlay for Hidden {
    fn hidden(&self, segment: usize) -> Result<Option<Arc<[u32]>>, ExecError> {
        Ok(self.0.get(segment).cloned())
    }

    fn parts(&self) -> usize {
        0
    }

    fn rows(&self, part: usize, _columns: &[usize]) -> Result<Batch, ExecError> {
        Err(ExecError::Internal(format!("part {part} of none")))
    }
}

/// The best of some runs: time, time on the processor, sum.
fn report(name: &str, rows: usize, runs: &[(Duration, Duration, i64, Arc<ScanExecution>)]) -> Outcome<()> {
    let wall = runs.iter().map(|run| run.0).min().ok_or("no run")?.as_secs_f64();
    let (.., sum, run) = &runs[0];
    let partitions = run.options().partitions;
    print!("{name}, {partitions} partition(s): {:.2} ms, {:.0} M rows/s", wall * 1e3, rows as f64 / wall / 1e6);
    if partitions == 1 {
        // What others do on the machine counts for less here.
        let processor = runs.iter().map(|run| run.1).min().ok_or("no run")?.as_secs_f64();
        print!(", on the processor {:.2} ns a row", processor * 1e9 / rows as f64);
    }
    let read = run.metrics().bytes_read.load(Ordering::Relaxed) as f64;
    println!(", {:.0} MB/s from the device; sum {sum}\n  {}", read / wall / 1e6, run.metrics());
    Ok(())
}

fn write(volume: &Arc<Volume>, rows: usize) -> Outcome<SegmentTable> {
    let money = DataType::Decimal { precision: 15, scale: 2 };
    let column = |name: &str, data_type| ColumnType { name: name.into(), data_type, nullable: false, missing: None };
    let columns = [("shipdate", DataType::Date), ("discount", money), ("quantity", money), ("extendedprice", money)];
    let columns: Vec<ColumnType> = columns.into_iter().map(|(name, data_type)| column(name, data_type)).collect();
    let codec = codec();
    let publication = volume.begin();
    let (writer, options) = (publication.writer(), BuildOptions::default());
    let mut builder = SegmentBuilder::new(&*codec, columns.clone(), TreeId(1), writer, options);
    let mut random = Random::new(6);
    let mut written = 0u64;
    while (written as usize) < rows {
        let count = (rows - written as usize).min(1 << 16);
        let quantities: Vec<i64> = (0..count).map(|_| random.range(1..51) as i64 * 100).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new((0..count).map(|_| Some(8036 + random.range(0..2526) as i32)).collect::<Date32Array>()),
            Arc::new((0..count).map(|_| Some(random.range(0..11) as i64)).collect::<Int64Array>()),
            Arc::new(Int64Array::from(quantities.clone())),
            Arc::new(quantities.iter().map(|q| Some(q * random.range(900..2100) as i64)).collect::<Int64Array>()),
        ];
        let batch = Batch::new(arrays.into_iter().map(Column::new).collect(), count);
        builder.push(&batch, &mut |row| Ok((written + row as u64).to_be_bytes().to_vec()))?;
        written += count as u64;
    }
    let (root, writer) = builder.finish(volume.page_size())?;
    writer.finish()?;
    publication.commit(&[])?;
    let store: Arc<dyn PageStore> = Arc::clone(volume) as _;
    let cache = PageCache::new(volume.page_size(), 1024)?;
    let mut reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX))?;
    Ok(SegmentTable::read(&mut reader, &root, "lineitem".into(), &columns.into())?)
}

/// A year, a discount from 5 to 7 %, fewer than 24 pieces.
fn filter() -> Vec<Expr> {
    let money = ArrowType::Decimal128(15, 2);
    let compare = |index: usize, op, value, data_type: &ArrowType| Expr::Compare {
        op,
        left: Box::new(Expr::Column { index, data_type: data_type.clone() }),
        right: Box::new(Expr::Literal { value, data_type: data_type.clone() }),
    };
    vec![
        compare(SHIPDATE, CompareOp::GreaterOrEqual, Value::Date(8766), &ArrowType::Date32),
        compare(SHIPDATE, CompareOp::Less, Value::Date(9131), &ArrowType::Date32),
        compare(DISCOUNT, CompareOp::GreaterOrEqual, Value::Decimal(5), &money),
        compare(DISCOUNT, CompareOp::LessOrEqual, Value::Decimal(7), &money),
        compare(QUANTITY, CompareOp::Less, Value::Decimal(2400), &money),
    ]
}

/// The sum of price times discount.
fn revenue(run: &Arc<ScanExecution>) -> Outcome<i64> {
    let partition = |partition: usize| -> Result<i64, saki_exec::ExecError> {
        let mut stream = run.open(partition);
        let mut sum = 0;
        while let Some(batch) = stream.next_blocking() {
            let batch = batch?;
            let [prices, discounts] = [0, 1].map(|column| batch.columns[column].array().as_primitive::<Int64Type>());
            sum +=
                prices.values().iter().zip(discounts.values()).map(|(price, discount)| price * discount).sum::<i64>();
        }
        Ok(sum)
    };
    let partitions = run.options().partitions;
    if partitions == 1 {
        return Ok(partition(0)?);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..partitions).map(|index| scope.spawn(move || partition(index))).collect();
        let sums =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a partition panicked")?.map_err(Into::into));
        sums.sum()
    })
}

/// How long this thread has run so far.
fn on_processor() -> Outcome<Duration> {
    let nanos = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(nanos.split(' ').next().ok_or("an empty schedstat")?.parse()?))
}

/// Bytes a second of large reads, sixteen in flight, over the bytes that are in use: others may never have been
/// written.
fn sequential(device: &dyn Device, used: u64) -> Outcome<f64> {
    const BYTES: u64 = 1 << 20;
    let mut lane = device.open_lane(None)?;
    let (mut offset, mut done) = (0, 0);
    let mut completions = Vec::new();
    let length = used.min(1 << 30) / BYTES * BYTES;
    let begun = Instant::now();
    while done < length {
        while offset < length && lane.in_flight() < 16 {
            lane.submit(Operation::read(offset, offset, Buffer::Aligned(AlignedBuffer::new(BYTES as usize))));
            offset += BYTES;
        }
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
        for completion in completions.drain(..) {
            completion.result?;
            done += BYTES;
        }
    }
    Ok(length as f64 / begun.elapsed().as_secs_f64())
}
