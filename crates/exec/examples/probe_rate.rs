//! How fast pipelines look scattered keys up in a tree on a real file, and scan it, without SQL above:
//! `cargo run --release -p saki-exec --example probe_rate -- FILE [ROWS] [PROBES] [REACTORS] [CHANGED]`: of every so
//! many rows, one has been replaced by what lies over the tree (0, as if not said: none).

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

use saki_base::{DataType, KeyColumn, KeyLayout, PageSize, RowColumn, RowLayout, TreeId, ValueRef};
use saki_exec::*;
use saki_io::{DeviceOptions, open_device};
use saki_page::{PageCache, PageStore};
use saki_tree::{BulkLoader, TreeRoot};
use saki_volume::{Volume, VolumeOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).cloned().unwrap_or_else(|| "/tmp/probe_rate.saki".into());
    let rows: u64 = arguments.get(2).map_or(Ok(8_000_000), |text| text.parse())?;
    let probes: u64 = arguments.get(3).map_or(Ok(80_000), |text| text.parse())?;
    let reactors: usize = arguments.get(4).map_or(Ok(2), |text| text.parse())?;
    let changed: usize = arguments.get(5).map_or(Ok(0), |text| text.parse())?;
    let page_size = PageSize::new(4096)?;
    let _ = std::fs::remove_file(&path);
    let device = open_device(std::path::Path::new(&path), DeviceOptions { create: true, ..DeviceOptions::default() })?;
    let volume = Volume::create(device, VolumeOptions::new(page_size))?;
    let int8 = KeyColumn { data_type: DataType::Int8, nullable: false, descending: false };
    let key = KeyLayout::new([int8]);
    let wide = RowLayout::new([
        RowColumn { data_type: DataType::Int8, nullable: false },
        RowColumn { data_type: DataType::Decimal { precision: 15, scale: 2 }, nullable: false },
        RowColumn { data_type: DataType::Text, nullable: false },
    ]);
    let start = Instant::now();
    let publication = volume.begin();
    let build = |id: u32, rows: u64, stride: u64, row: &RowLayout| -> Result<TreeRoot, Box<dyn std::error::Error>> {
        let mut loader = BulkLoader::new(publication.writer(), page_size, TreeId(id));
        let text = "x".repeat(90);
        let (mut k, mut r) = (Vec::new(), Vec::new());
        for i in 0..rows {
            k.clear();
            r.clear();
            key.encode(&[ValueRef::Int8((i * stride) as i64)], &mut k)?;
            if !row.columns().is_empty() {
                row.encode(&[ValueRef::Int8(i as i64), ValueRef::Decimal(i as i128), ValueRef::Text(&text)], &mut r)?;
            }
            loader.push(&k, &r)?;
        }
        let (root, writer) = loader.finish()?;
        writer.finish()?;
        Ok(root)
    };
    let narrow = RowLayout::new([]);
    let outer = build(1, probes, rows / probes, &narrow)?;
    let inner = build(2, rows, 1, &wide)?;
    publication.commit(&[])?;
    println!("built {} + {} leaves in {:.1} s", outer.leaf_pages, inner.leaf_pages, start.elapsed().as_secs_f64());

    let store: Arc<dyn PageStore> = volume.clone();
    let cache = PageCache::new(page_size, 64 << 10)?;
    let executor = Executor::start(Arc::clone(&cache), store, ExecutorOptions { reactors, pin: false })?;
    let column = |name: &str, data_type, place| AccessColumn { name: name.into(), data_type, nullable: false, place };
    let mut replaced = BTreeMap::new();
    for i in (0..rows).step_by(changed.max(1)).filter(|_| changed > 0) {
        let (mut k, mut r) = (Vec::new(), Vec::new());
        key.encode(&[ValueRef::Int8(i as i64)], &mut k)?;
        wide.encode(&[ValueRef::Int8(i as i64), ValueRef::Decimal(i as i128), ValueRef::Text("new")], &mut r)?;
        replaced.insert(k, r);
    }
    let overlay = (changed > 0).then(|| Arc::new(Replaced(Arc::new(replaced))) as Arc<dyn Overlay>);
    let access = |root: &TreeRoot, name: &str, row: &RowLayout, columns, overlay| {
        Arc::new(TreeAccess {
            tree: root.id,
            name: name.into(),
            root: root.root,
            height: root.height.into(),
            leaf_pages: root.leaf_pages,
            key: key.clone(),
            row: row.clone(),
            columns,
            overlay,
        })
    };
    let outer = access(&outer, "outer", &narrow, vec![column("id", DataType::Int8, Place::Key(0))], None);
    let decimal = DataType::Decimal { precision: 15, scale: 2 };
    let inner = access(
        &inner,
        "inner",
        &wide,
        vec![column("id", DataType::Int8, Place::Key(0)), column("q", decimal, Place::Row(1))],
        overlay,
    );
    let inner_access = Arc::clone(&inner);
    let pipeline = Arc::new(Pipeline {
        source: Source::Ranges {
            access: outer,
            ranges: vec![KeyRange::default()],
            predicates: vec![],
            fetch: vec![0],
            filter: None,
        },
        stages: vec![Stage {
            access: inner,
            kind: JoinKind::Inner,
            key: vec![KeySource::Register(0)],
            unique: true,
            predicates: vec![],
            keep: vec![],
            fetch: vec![1],
            filter: None,
        }],
        limit: None,
        snapshot: Arc::new(()),
    });
    let scan = Arc::new(Pipeline {
        source: Source::Ranges {
            access: Arc::clone(&inner_access),
            ranges: vec![KeyRange::default()],
            predicates: vec![],
            fetch: vec![1],
            filter: None,
        },
        stages: vec![],
        limit: None,
        snapshot: Arc::new(()),
    });
    let all = u32::MAX;
    for (pipeline, order, max) in [
        (&pipeline, VisitOrder::OutOfOrder, all),
        (&scan, VisitOrder::OutOfOrder, all),
        (&pipeline, VisitOrder::OutOfOrder, 256),
        (&pipeline, VisitOrder::InOrder, 1),
    ] {
        cache.clear();
        let cpu = cpu_seconds();
        let start = Instant::now();
        let run = executor.run(
            Arc::clone(pipeline),
            ExecutionOptions { order, max_in_flight: max, partitions: reactors, ..ExecutionOptions::default() },
        );
        let streams: Vec<_> = (0..run.options().partitions).map(|partition| run.open(partition)).collect();
        let mut rows = 0;
        for mut stream in streams {
            while let Some(batch) = stream.next_blocking() {
                rows += batch?.registers.num_rows();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let (user, system) = cpu_seconds();
        let visits = run.metrics().total(|stage| &stage.visits);
        let read = run.metrics().total(|stage| &stage.pages_read);
        println!(
            "{order:?} max {max}: {rows} rows, {seconds:.3} s, {:.0} pages/s, \
             user {:.2} us/visit, system {:.2} us/read, {}",
            read as f64 / seconds,
            (user - cpu.0) * 1e6 / visits as f64,
            (system - cpu.1) * 1e6 / read as f64,
            run.metrics()
        );
    }
    Ok(())
}

/// User and system seconds of this process.
fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    (ticks(11), ticks(12))
}

/// Rows that replace those of a tree.
#[derive(Debug)]
struct Replaced(Arc<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Overlay for Replaced {
    fn reader(&self) -> Result<Box<dyn OverlayReader>, ExecError> {
        Ok(Box::new(Reader { rows: Arc::clone(&self.0), low: Vec::new(), high: Vec::new() }))
    }
}

struct Reader {
    rows: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    low: Vec<u8>,
    high: Vec<u8>,
}

impl OverlayReader for Reader {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        let Self { rows, low, high } = self;
        if !keys.are_neighbours() {
            for (index, hidden) in hidden.iter_mut().enumerate() {
                keys.read(index, low);
                *hidden = rows.contains_key(low.as_slice());
            }
            return Ok(());
        }
        keys.read(0, low);
        keys.read(keys.len() - 1, high);
        let between = (Bound::Included(low.as_slice()), Bound::Included(high.as_slice()));
        for (key, _) in rows.range::<[u8], _>(between) {
            hidden[keys.positions(key)].fill(true);
        }
        Ok(())
    }

    fn entries(
        &mut self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<(), ExecError> {
        let low = low.map_or(Bound::Unbounded, Bound::Included);
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, row) in self.rows.range::<[u8], _>((low, high)) {
            if visit(key, row) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}
