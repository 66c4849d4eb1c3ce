//! Groups of several threads brought together, in parts that can be finished side by side.
//!
//! Packed keys are first brought into one packing; each part then has a range of them, bounded by a sample. So keys
//! that threads saw in ascending order stay in that order, neighbours fall into the same part, and dense keys can be
//! looked up in an array. Rows have no order worth keeping: each part has those with certain hashes.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::accumulators::{Accumulator, Accumulators, Pairs, Stretch, merge_ascending};
use super::keys::index::Index;
use super::keys::packed::{PackedGroups, PackedKeys};
use super::keys::rows::RowKeys;
use super::keys::{Keys, unpacked};
use super::{Aggregation, Aggregator};
use crate::{BATCH_ROWS, Batch, Column, Result};

/// Fewer groups than this are not worth another part.
const GROUPS_PER_PART: usize = 4096;

/// Keys from which the bounds of each part are chosen.
const SAMPLES_PER_PART: usize = 256;

/// Splits what the threads have seen into at most `partitions` parts that have no group in common and can be finished
/// side by side. There is none if there is no group.
pub fn merge(mut aggregators: Vec<Aggregator>, partitions: usize) -> Result<Vec<Part>> {
    // A thread may have had no row, and then no group.
    aggregators.retain(|aggregator| aggregator.groups() > 0);
    let Some(first) = aggregators.first() else { return Ok(Vec::new()) };
    let aggregation = first.aggregation.clone();
    let groups: usize = aggregators.iter().map(Aggregator::groups).sum();
    let parts = partitions.min(groups / GROUPS_PER_PART).max(1);
    let mut keys = Vec::new();
    let mut sources = Vec::new();
    for aggregator in aggregators {
        sources.push(Source {
            groups: aggregator.keys.groups(),
            accumulators: aggregator.accumulators,
            rows: aggregator.rows,
        });
        keys.push(aggregator.keys);
    }
    let (keys, shares) = match sources.as_slice() {
        [only] => {
            let bound = |part: usize| part * only.groups / parts;
            (MergedKeys::of_one(keys), (0..parts).map(|part| Share::Groups(bound(part)..bound(part + 1))).collect())
        }
        _ => share(keys, &aggregation, parts)?,
    };
    let merged = Arc::new(Merged { aggregation, keys, sources });
    Ok(shares.into_iter().map(|share| Part { merged: Arc::clone(&merged), share }).collect())
}

/// What one thread has seen.
struct Source {
    groups: usize,
    accumulators: Accumulators,
    /// Rows by group, if a call wants them.
    rows: Vec<i64>,
}

/// The keys of all sources.
enum MergedKeys {
    Whole,
    Packed { packing: PackedKeys, groups: Vec<PackedGroups> },
    Rows(Vec<RowKeys>),
}

struct Merged {
    aggregation: Aggregation,
    keys: MergedKeys,
    sources: Vec<Source>,
}

/// Which groups are in a part.
enum Share {
    /// These, of the only source.
    Groups(Range<usize>),
    All,
    Keys(RangeInclusive<u64>),
    /// Those whose hash leads to `part` of `parts`.
    Hashes {
        part: u64,
        parts: u64,
    },
}

/// Groups of one part, still to be combined.
pub struct Part {
    merged: Arc<Merged>,
    share: Share,
}

impl MergedKeys {
    fn of_one(keys: Vec<Keys>) -> Self {
        let mut rows = Vec::new();
        for keys in keys {
            match keys {
                Keys::Whole => return Self::Whole,
                Keys::Packed(mut packing) => {
                    return Self::Packed { groups: vec![packing.take_groups()], packing: *packing };
                }
                Keys::Rows(keys) => rows.push(*keys),
            }
        }
        Self::Rows(rows)
    }
}

/// Brings keys into one form, and shares them out.
fn share(all: Vec<Keys>, aggregation: &Aggregation, parts: usize) -> Result<(MergedKeys, Vec<Share>)> {
    let mut packed = Vec::new();
    let mut rows = Vec::new();
    // Sources keep their order: keys are told apart by place.
    for keys in all {
        match keys {
            Keys::Whole => return Ok((MergedKeys::Whole, vec![Share::All])),
            Keys::Packed(keys) => {
                packed.push(*keys);
                rows.push(None);
            }
            Keys::Rows(keys) => rows.push(Some(*keys)),
        }
    }
    if packed.len() == rows.len()
        && let Some(groups) = PackedKeys::unify(&mut packed)
    {
        let shares = ranges(&groups, parts);
        let Some(packing) = packed.into_iter().next() else { return Ok((MergedKeys::Whole, Vec::new())) };
        return Ok((MergedKeys::Packed { packing, groups }, shares));
    }
    let mut packed = packed.into_iter();
    let mut forms = Vec::new();
    for keys in rows {
        match (keys, &mut packed) {
            (Some(keys), _) => forms.push(keys),
            (None, packed) => {
                if let Some(packed) = packed.next() {
                    forms.push(unpacked(&packed, &aggregation.keys)?);
                }
            }
        }
    }
    let shares = (0..parts as u64).map(|part| Share::Hashes { part, parts: parts as u64 }).collect();
    Ok((MergedKeys::Rows(forms), shares))
}

/// Ranges of keys with about as many groups each.
fn ranges(groups: &[PackedGroups], parts: usize) -> Vec<Share> {
    let all: usize = groups.iter().map(|source| source.keys.len()).sum();
    let step = (all / (parts * SAMPLES_PER_PART)).max(1);
    let mut sample: Vec<u64> = groups.iter().flat_map(|source| source.keys.iter().step_by(step).copied()).collect();
    sample.sort_unstable();
    let mut bounds: Vec<u64> = (1..parts).map(|part| sample[part * sample.len() / parts]).collect();
    bounds.dedup();
    let mut shares = Vec::new();
    let mut start = 0;
    for bound in bounds.into_iter().filter(|bound| *bound > 0) {
        shares.push(Share::Keys(start..=bound - 1));
        start = bound;
    }
    shares.push(Share::Keys(start..=u64::MAX));
    shares
}

impl Part {
    /// Combines and gives the groups: key columns, then a column for each call, in batches.
    pub fn finish(self) -> Result<Vec<Batch>> {
        let Merged { aggregation, keys, sources } = self.merged.as_ref();
        let only = Stretch { source: 0, target: 0, groups: 1 };
        let (mut columns, pairs, groups) = match (keys, &self.share) {
            (keys, Share::Groups(groups)) => return self.finish_only(keys, groups.clone()),
            (MergedKeys::Whole, _) => (Vec::new(), sources.iter().map(|_| Pairs::Stretches(vec![only])).collect(), 1),
            (MergedKeys::Packed { packing, groups }, share) => combine_packed(packing, groups, share)?,
            (MergedKeys::Rows(rows), share) => combine_rows(rows, share, aggregation)?,
        };
        let counted = sources.iter().any(|source| !source.rows.is_empty());
        let mut rows = vec![0; if counted { groups } else { 0 }];
        for (source, pairs) in sources.iter().zip(&pairs).filter(|(source, _)| !source.rows.is_empty()) {
            pairs.for_each(|from, to| rows[to] += source.rows[from]);
        }
        for (position, call) in aggregation.calls.iter().enumerate() {
            let by_source: Vec<Vec<&Accumulator>> =
                sources.iter().map(|source| source.accumulators.of_call(position)).collect();
            let combined = combine(&by_source, &pairs, groups);
            columns.push(Accumulator::finish(&combined.iter().collect::<Vec<_>>(), call, 0..groups, &rows)?);
        }
        Ok(batches(columns, groups))
    }

    fn finish_only(&self, keys: &MergedKeys, groups: Range<usize>) -> Result<Vec<Batch>> {
        let Merged { aggregation, sources, .. } = self.merged.as_ref();
        let mut columns = match keys {
            MergedKeys::Whole => Vec::new(),
            MergedKeys::Packed { packing, groups: keys } => match keys.first() {
                Some(only) => packing.unpack(&only.keys[groups.clone()])?,
                None => Vec::new(),
            },
            MergedKeys::Rows(rows) => match rows.first() {
                Some(only) => only.columns(groups.clone())?,
                None => Vec::new(),
            },
        };
        for only in sources {
            for (position, call) in aggregation.calls.iter().enumerate() {
                let accumulators = only.accumulators.of_call(position);
                columns.push(Accumulator::finish(&accumulators, call, groups.clone(), &only.rows)?);
            }
        }
        Ok(batches(columns, groups.len()))
    }
}

/// The accumulators of a call, of those that each source has for it.
fn combine(by_source: &[Vec<&Accumulator>], pairs: &[Pairs], groups: usize) -> Vec<Accumulator> {
    let members = 0..by_source.first().map_or(0, Vec::len);
    let combine = |member: usize| {
        let sources: Vec<&Accumulator> = by_source.iter().map(|of_call| of_call[member]).collect();
        let mut combined = Accumulator::of_others(&sources)?;
        combined.resize(groups);
        for (source, pairs) in sources.iter().zip(pairs) {
            combined.absorb(source, pairs, groups);
        }
        Some(combined)
    };
    members.filter_map(combine).collect()
}

type Combined = (Vec<Column>, Vec<Pairs>, usize);

fn combine_packed(packing: &PackedKeys, groups: &[PackedGroups], share: &Share) -> Result<Combined> {
    let range = match share {
        Share::Keys(range) => range.clone(),
        _ => 0..=u64::MAX,
    };
    if groups.iter().all(|source| source.ascending) {
        let within: Vec<Range<usize>> = groups.iter().map(|source| source.ascending_within(&range)).collect();
        let sources: Vec<&[u64]> =
            groups.iter().zip(&within).map(|(source, within)| &source.keys[within.clone()]).collect();
        let firsts: Vec<usize> = within.iter().map(|within| within.start).collect();
        let (keys, pairs) = merge_ascending(&sources, &firsts);
        return Ok((packing.unpack(&keys)?, pairs, keys.len()));
    }
    let bits = match *range.end() {
        u64::MAX => packing.bits(),
        end => u64::BITS - (end - range.start()).leading_zeros(),
    };
    let mut index = Index::Ascending;
    let mut keys = Vec::new();
    let mut all = Vec::new();
    for source in groups {
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        // The part's keys from 0 on: an array of them has its range only.
        let chosen: Vec<u64> = source.within(&range, &mut sources).into_iter().map(|key| key - range.start()).collect();
        index.assign(&chosen, bits, &mut keys, &mut targets);
        all.push(Pairs::Lists { sources, targets });
    }
    keys.iter_mut().for_each(|key| *key += range.start());
    Ok((packing.unpack(&keys)?, all, keys.len()))
}

fn combine_rows(rows: &[RowKeys], share: &Share, aggregation: &Aggregation) -> Result<Combined> {
    let mut combined = RowKeys::new(&aggregation.keys);
    let mut all = Vec::new();
    for source in rows {
        let numbered = (0..).zip(source.hashes());
        let sources: Vec<u32> = match *share {
            Share::Hashes { part, parts } => {
                // The lower bits: tables are filled by the upper ones.
                let chosen = numbered.filter(|(_, hash)| ((u64::from(**hash) & 0xffff) * parts) >> 16 == part);
                chosen.map(|(group, _)| group).collect()
            }
            _ => numbered.map(|(group, _)| group).collect(),
        };
        let targets = combined.adopt(source, &sources);
        all.push(Pairs::Lists { sources, targets });
    }
    Ok((combined.columns(0..combined.groups())?, all, combined.groups()))
}

impl PackedGroups {
    /// The groups whose keys are within `range`, if keys ascend.
    fn ascending_within(&self, range: &RangeInclusive<u64>) -> Range<usize> {
        self.keys.partition_point(|key| key < range.start())..self.keys.partition_point(|key| key <= range.end())
    }

    /// The keys within `range`; their groups into `groups`.
    fn within(&self, range: &RangeInclusive<u64>, groups: &mut Vec<u32>) -> Vec<u64> {
        let within = (0..).zip(&self.keys).filter(|(_, key)| range.contains(key));
        within.map(|(group, key)| (*key, groups.push(group)).0).collect()
    }
}

fn batches(columns: Vec<Column>, rows: usize) -> Vec<Batch> {
    let whole = Batch::new(columns, rows);
    (0..rows).step_by(BATCH_ROWS).map(|start| whole.slice(start, BATCH_ROWS.min(rows - start))).collect()
}
