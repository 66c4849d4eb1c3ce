//! Trees in memory, an overlay in maps over each, and what both are together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_base::value::Value;
use saki_base::{DataType, KeyColumn, KeyLayout, Random, RowColumn, RowLayout, TreeId, ValueRef};
use saki_exec::{
    AccessColumn, EntryKeys, ExecError, Executor, ExecutorOptions, Overlay, OverlayReader, Place, TreeAccess,
    VisitEntry,
};
use saki_page::PageCache;

use crate::store::{MemoryStore, PAGE, Pages};

/// Columns of a tree: name, type, nullable, in the key.
type Columns = &'static [(&'static str, DataType, bool, bool)];

const PARENTS: Columns = &[
    ("id", DataType::Int8, false, true),
    ("score", DataType::Int4, true, false),
    ("note", DataType::Text, false, false),
];
const BY_SCORE: Columns = &[("score", DataType::Int4, true, true), ("id", DataType::Int8, false, true)];
const CHILDREN: Columns = &[
    ("parent", DataType::Int8, false, true),
    ("number", DataType::Int4, false, true),
    ("amount", DataType::Int8, false, false),
];

/// A tree, what lies over it, and its rows as a query has to see them.
pub struct Table {
    pub access: Arc<TreeAccess>,
    /// Encoded key and the values of all columns.
    pub rows: Vec<(Vec<u8>, Vec<Value>)>,
}

/// Parents, their index by score, children.
pub struct Database {
    pub tables: [Table; 3],
    pages: Arc<Vec<Vec<u8>>>,
}

impl Database {
    pub fn executor(&self, frames: u32, allowance: usize, seed: u64) -> Arc<Executor> {
        let store = Arc::new(MemoryStore { pages: Arc::clone(&self.pages), seed, allowance, failing: 0 });
        let cache = PageCache::new(PAGE, frames).unwrap();
        Executor::start(cache, store, ExecutorOptions { reactors: 2, pin: false }).unwrap()
    }
}

/// Rows of a table by primary key; a `None` over a row is its deletion.
type Rows = BTreeMap<Vec<u8>, Option<Vec<Value>>>;

pub fn database(seed: u64, parents: u64, changed: f64) -> Database {
    let random = &mut Random::new(seed);
    let mut base: [Rows; 2] = Default::default();
    let mut delta: [Rows; 2] = Default::default();
    let rows = |random: &mut Random, id: i64| {
        let children = if random.chance(0.03) { random.range(0..200) } else { random.range(0..4) };
        let children: Vec<_> = (0..children as i32).map(|number| child(random, id, number)).collect();
        (parent(random, id), children)
    };
    for id in 0..parents as i64 {
        // Base only, both, delta only; deleted or not.
        let (in_base, in_delta) = (random.chance(0.9), random.chance(changed));
        let (parent, children) = rows(random, id);
        if in_base {
            base[0].insert(key(PARENTS, &parent), Some(parent));
            base[1].extend(children.into_iter().map(|child| (key(CHILDREN, &child), Some(child))));
        }
        if in_delta {
            let (parent, children) = rows(random, id);
            let over = |random: &mut Random, row: Vec<Value>| (!random.chance(0.4)).then_some(row);
            delta[0].insert(key(PARENTS, &parent), over(random, parent));
            delta[1].extend(children.into_iter().map(|child| (key(CHILDREN, &child), over(random, child))));
        }
    }
    build(base, delta)
}

fn parent(random: &mut Random, id: i64) -> Vec<Value> {
    let score = if random.chance(0.1) { Value::Null } else { Value::Int4(random.range(0..40) as i32) };
    // Now and then a row that needs overflow pages.
    let note = if random.chance(0.02) { 5000 } else { random.range(0..30) };
    vec![Value::Int8(id), score, Value::Text(random.range(0..10).to_string().repeat(note as usize))]
}

fn child(random: &mut Random, parent: i64, number: i32) -> Vec<Value> {
    vec![Value::Int8(parent), Value::Int4(number), Value::Int8(random.range(0..500) as i64)]
}

fn build([parents, children]: [Rows; 2], [new_parents, new_children]: [Rows; 2]) -> Database {
    let mut pages = Pages::default();
    let by_score = |rows: &Rows| -> Rows {
        let entries = rows.values().flatten().map(|row| vec![row[1].clone(), row[0].clone()]);
        entries.map(|entry| (key(BY_SCORE, &entry), Some(entry))).collect()
    };
    let (index, new_index) = (by_score(&parents), by_score(&new_parents));
    let ids: BTreeSet<Vec<u8>> = new_parents.keys().cloned().collect();
    let child_keys = new_children.keys().cloned().collect();
    let tables = [
        table(&mut pages, 1, "parents", PARENTS, &parents, &new_parents, ids.clone(), 0),
        // An entry's primary key is its last eight bytes.
        table(&mut pages, 2, "parents_score", BY_SCORE, &index, &new_index, ids, 8),
        table(&mut pages, 3, "children", CHILDREN, &children, &new_children, child_keys, 0),
    ];
    Database { tables, pages: Arc::new(pages.0) }
}

#[allow(clippy::too_many_arguments)]
fn table(
    pages: &mut Pages,
    id: u32,
    name: &str,
    columns: Columns,
    base: &Rows,
    delta: &Rows,
    hidden: BTreeSet<Vec<u8>>,
    primary_key_bytes: usize,
) -> Table {
    let entries = |rows: &Rows| -> Vec<(Vec<u8>, Vec<u8>)> {
        rows.iter().filter_map(|(key, row)| Some((key.clone(), encode_row(columns, row.as_ref()?)))).collect()
    };
    let (root, height, leaf_pages) = pages.tree(TreeId(id), &entries(base));
    let overlay =
        MapOverlay(Arc::new(Content { hidden, entries: entries(delta).into_iter().collect(), primary_key_bytes }));
    let is_hidden = |key: &[u8]| overlay.0.hides(key);
    let visible = base.iter().filter(|(key, _)| !is_hidden(key)).chain(delta);
    let mut rows: Vec<_> = visible.filter_map(|(key, row)| Some((key.clone(), row.clone()?))).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut in_key, mut in_row) = (0, 0);
    let columns: Vec<AccessColumn> = columns
        .iter()
        .map(|(name, data_type, nullable, keyed)| {
            let count = if *keyed { &mut in_key } else { &mut in_row };
            *count += 1;
            let place = if *keyed { Place::Key(*count - 1) } else { Place::Row(*count - 1) };
            AccessColumn { name: (*name).into(), data_type: *data_type, nullable: *nullable, place }
        })
        .collect();
    let (key, row) = (key_layout(columns_of(id)), row_layout(columns_of(id)));
    let overlay = (!overlay.0.hidden.is_empty()).then(|| Arc::new(overlay) as Arc<dyn Overlay>);
    let access =
        TreeAccess { tree: TreeId(id), name: name.into(), root, height, leaf_pages, key, row, columns, overlay };
    Table { access: Arc::new(access), rows }
}

fn columns_of(id: u32) -> Columns {
    [PARENTS, BY_SCORE, CHILDREN][id as usize - 1]
}

fn key_layout(columns: Columns) -> KeyLayout {
    KeyLayout::new(columns.iter().filter(|column| column.3).map(|&(_, data_type, nullable, _)| KeyColumn {
        data_type,
        nullable,
        descending: false,
    }))
}

fn row_layout(columns: Columns) -> RowLayout {
    let in_row = columns.iter().filter(|column| !column.3);
    RowLayout::new(in_row.map(|&(_, data_type, nullable, _)| RowColumn { data_type, nullable }))
}

fn key(columns: Columns, values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let layout = key_layout(columns);
    let values: Vec<ValueRef<'_>> = values[..layout.columns().len()].iter().map(Value::as_ref).collect();
    layout.encode(&values, &mut bytes).unwrap();
    bytes
}

fn encode_row(columns: Columns, values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let values: Vec<ValueRef<'_>> = values[key_layout(columns).columns().len()..].iter().map(Value::as_ref).collect();
    row_layout(columns).encode(&values, &mut bytes).unwrap();
    bytes
}

#[derive(Debug)]
struct Content {
    /// Primary keys.
    hidden: BTreeSet<Vec<u8>>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many bytes of an entry's key, from its end, are the primary key; 0 for all.
    primary_key_bytes: usize,
}

impl Content {
    fn hides(&self, key: &[u8]) -> bool {
        let start = if self.primary_key_bytes > 0 { key.len() - self.primary_key_bytes } else { 0 };
        self.hidden.contains(&key[start..])
    }
}

#[derive(Debug)]
struct MapOverlay(Arc<Content>);

impl Overlay for MapOverlay {
    fn reader(&self) -> Result<Box<dyn OverlayReader>, ExecError> {
        Ok(Box::new(MapReader(Arc::clone(&self.0))))
    }
}

struct MapReader(Arc<Content>);

/// Times that readers hid by going through a range, and by looking keys up.
pub static HIDDEN_BY: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl OverlayReader for MapReader {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        assert!(!keys.is_empty() && hidden.len() == keys.len() && !hidden.contains(&true));
        let mut key = Vec::new();
        if keys.are_neighbours() && self.0.primary_key_bytes == 0 {
            HIDDEN_BY[0].fetch_add(1, Ordering::Relaxed);
            let mut last = Vec::new();
            keys.read(0, &mut key);
            keys.read(keys.len() - 1, &mut last);
            for other in self.0.hidden.range(key..=last) {
                hidden[keys.positions(other)].fill(true);
            }
            return Ok(());
        }
        HIDDEN_BY[1].fetch_add(1, Ordering::Relaxed);
        let mut last = Vec::new();
        for (index, hidden) in hidden.iter_mut().enumerate() {
            keys.read(index, &mut key);
            assert!(last <= key, "keys ascend");
            *hidden = self.0.hides(&key);
            last.clone_from(&key);
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
        for (key, row) in self.0.entries.range::<[u8], _>((low, high)) {
            if visit(key, row) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}
