//! A look at every segment of a table: the directory's pages and order, every run's bytes, and that each column is what
//! its entry says.
//!
//! What is *not* checked here: that the rows are those of the primary tree (the caller compares, by
//! [`InspectColumns`]), and the live counts of chunks.

use std::time::Duration;

use arrow_buffer::Buffer;
use saki_base::{AlignedBuffer, Part, ValueRef, checksum};
use saki_page::{IoShare, Refusal, RunRead, RunStore, StoreError};
use saki_tree::{Fault, Fetcher, Inspect, LivePages};
use saki_vector::Column;

use crate::directory::{SegmentsRoot, entry};
use crate::missing::missing_column;
use crate::segment::{DroppedRun, Segment, SegmentColumns};
use crate::values::for_each_value;
use crate::zone::survey;
use crate::{Codec, ColumnType, Zone};

/// Something wrong with one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFault {
    /// In the order of the directory, from 0.
    pub segment: usize,
    /// The table's column; `None` if it concerns the whole segment, or what it has of a dropped column.
    pub column: Option<usize>,
    pub what: String,
}

/// What a look at all segments has seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SegmentsVerification {
    /// In key order; those whose entry cannot be read are missing.
    pub segments: Vec<Segment>,
    /// Of the directory, and of the whole.
    pub directory_faults: Vec<Fault>,
    pub faults: Vec<SegmentFault>,
    /// Of the directory and the runs.
    pub pages: u64,
}

/// What the caller adds.
pub trait InspectColumns {
    /// Called for every column of every segment that can be decoded, in no order.
    fn column(&mut self, segment: usize, column: usize, values: &Column);

    /// Called every now and then, with the number of pages seen so far and of those that there are.
    fn progress(&mut self, _pages: u64, _pages_expected: u64) {}
}

/// Where to read from.
pub struct VerifySource<'s> {
    pub fetcher: &'s mut Fetcher,
    pub runs: &'s dyn RunStore,
    pub codec: &'s dyn Codec,
}

/// Looks at all segments of a table with these columns; every page met is noted in `live`. Never fails: what cannot be
/// read is a fault like any other. Of runs of columns that the table has lost, the bytes are compared with their
/// checksums.
pub fn verify(
    source: VerifySource<'_>,
    root: &SegmentsRoot,
    columns: &SegmentColumns,
    live: &mut LivePages,
    inspect: &mut dyn InspectColumns,
) -> SegmentsVerification {
    let mut entries = Entries { columns, segments: Vec::new() };
    let directory = saki_tree::verify(source.fetcher, &root.directory, live, &mut entries);
    let mut segments = entries.segments;
    segments.sort_by(|a, b| a.first_key.cmp(&b.first_key));
    let mut seen =
        SegmentsVerification { pages: directory.pages(), directory_faults: directory.faults, ..Default::default() };
    let page_bytes = source.runs.page_size().bytes();
    let mut runs = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        for run in runs_of(index, segment, columns) {
            let part = Part::column(root.directory.id, run.place);
            let shared = run.run.pages(page_bytes).filter(|page| !live.insert(*page, part)).count();
            if shared > 0 {
                seen.fault(&run, format!("{shared} pages of its run belong to something else as well"));
            }
            if run.run.bytes > 0 {
                runs.push(run);
            } else if let Some(column) = run.of {
                match missing_column(&columns.columns()[column], segment.rows as usize) {
                    Ok(values) => inspect.column(index, column, &values),
                    Err(error) => seen.fault(&run, error.to_string()),
                }
            }
        }
    }
    let pages_expected = root.directory.pages() + root.pages;
    let read = read_runs(source.runs, &runs, |run, read| {
        seen.pages += run.run.page_count(page_bytes);
        let looked = bytes_of(&run.run, read).and_then(|blob| {
            let Some(column) = run.of else { return Ok(()) };
            let segment = &segments[run.segment];
            let zone = &segment.columns[column].zone;
            let values = look_at(&blob, zone, segment.rows, &columns.columns()[column], source.codec)?;
            inspect.column(run.segment, column, &values);
            Ok(())
        });
        if let Err(what) = looked {
            seen.fault(run, what);
        }
        inspect.progress(seen.pages, pages_expected);
    });
    if let Err(error) = read {
        seen.directory_faults.push(whole(root, format!("runs cannot be read: {error}")));
    }
    let pages = runs.iter().map(|run| run.run.page_count(page_bytes)).sum();
    seen.compare(root, &segments, pages);
    seen.faults.sort_by_key(|fault| (fault.segment, fault.column));
    seen.segments = segments;
    seen
}

/// A run of a segment, and where it belongs.
struct PlacedRun {
    segment: usize,
    /// The table's column; none if the table has lost it.
    of: Option<usize>,
    place: usize,
    run: DroppedRun,
}

/// The runs of a segment, those that it lacks included.
fn runs_of(index: usize, segment: &Segment, columns: &SegmentColumns) -> Vec<PlacedRun> {
    let present = segment.columns.iter().enumerate().map(|(column, run)| PlacedRun {
        segment: index,
        of: Some(column),
        place: columns.place_of(column),
        run: run.without_zone(),
    });
    let dropped = segment.dropped.iter();
    let dropped = dropped.map(|(place, run)| PlacedRun { segment: index, of: None, place: *place, run: *run });
    present.chain(dropped).collect()
}

impl SegmentsVerification {
    fn fault(&mut self, run: &PlacedRun, what: String) {
        let what = match run.of {
            Some(_) => what,
            None => format!("a column that has been dropped: {what}"),
        };
        self.faults.push(SegmentFault { segment: run.segment, column: run.of, what });
    }

    /// Compares what was found with what the catalog says. `pages`: of all runs.
    fn compare(&mut self, root: &SegmentsRoot, segments: &[Segment], pages: u64) {
        let bytes = segments.iter().map(Segment::bytes).sum::<u64>();
        let rows = segments.iter().map(|segment| u64::from(segment.rows)).sum::<u64>();
        let counts = [
            ("segments", segments.len() as u64, root.segments),
            ("rows", rows, root.rows),
            ("pages of runs", pages, root.pages),
            ("bytes of runs", bytes, root.bytes),
        ];
        for (what, found, promised) in counts {
            if found != promised {
                let what = format!("the catalog says {promised} {what}, {found} were found");
                self.directory_faults.push(whole(root, what));
            }
        }
    }
}

/// A fault of the directory that no page of it shows.
fn whole(root: &SegmentsRoot, what: String) -> Fault {
    Fault { tree: root.directory.id, page: None, device: String::new(), what }
}

/// Reads entries as the walk over the directory meets them.
struct Entries<'c> {
    columns: &'c SegmentColumns,
    segments: Vec<Segment>,
}

impl Inspect for Entries<'_> {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let segment = entry::decode(key, value, self.columns).map_err(|error| error.to_string())?;
        if segment.rows == 0 {
            return Err("a segment without rows".to_owned());
        }
        self.segments.push(segment);
        Ok(())
    }
}

/// The bytes of a run that are those of its entry.
fn bytes_of(run: &DroppedRun, read: Result<AlignedBuffer, StoreError>) -> Result<Buffer, String> {
    let pages = read.map_err(|error| error.to_string())?;
    let blob = pages.get(..run.bytes as usize).ok_or("the run is shorter than its entry says")?;
    if checksum(blob) != run.checksum {
        return Err(format!(
            "its run from {} on is corrupt: its bytes do not have the checksum of its entry",
            run.first_page
        ));
    }
    if pages[run.bytes as usize..].iter().any(|byte| *byte != 0) {
        return Err("bytes behind the end of its run".to_owned());
    }
    Ok(Buffer::from(blob))
}

/// The values of a run that is what its entry says.
fn look_at(blob: &Buffer, zone: &Zone, rows: u32, column: &ColumnType, codec: &dyn Codec) -> Result<Column, String> {
    let values = codec.decode(blob, column.data_type, rows as usize).map_err(|error| error.to_string())?;
    if values.len() != rows as usize {
        return Err(format!("{} values in a segment of {rows} rows", values.len()));
    }
    let found = survey(&values, column.data_type).map_err(|error| error.to_string())?;
    if !zone.admits(&found) {
        return Err(format!("its zone says {zone:?}, its values are {found:?}"));
    }
    if let Some(bloom) = &zone.bloom {
        let mut foreign = 0;
        let look = |value: ValueRef<'_>| foreign += u64::from(value != ValueRef::Null && !bloom.may_contain(value));
        for_each_value(&values, column.data_type, look).map_err(|error| error.to_string())?;
        if foreign > 0 {
            return Err(format!("{foreign} of its values do not pass its Bloom filter"));
        }
    }
    if found.nulls > 0 && !column.nullable {
        return Err(format!("{} NULLs in a column that has none", found.nulls));
    }
    Ok(values)
}

const PATIENCE: Duration = Duration::from_millis(100);

/// Reads runs with many on their way; `look` gets them in any order.
fn read_runs(
    store: &dyn RunStore,
    runs: &[PlacedRun],
    mut look: impl FnMut(&PlacedRun, Result<AlignedBuffer, StoreError>),
) -> Result<(), StoreError> {
    let mut lane = store.open_run_lane()?;
    let share = IoShare::new(u32::MAX);
    let mut finished: Vec<RunRead> = Vec::new();
    let (mut next, mut pending) = (0, 0);
    while next < runs.len() || pending > 0 {
        while let Some(placed) = runs.get(next) {
            let run = &placed.run;
            match lane.try_read(&share, run.first_page, run.bytes as usize, run.checksum, next as u64) {
                Ok(()) => pending += 1,
                Err(Refusal::Busy(_)) => break,
                Err(Refusal::Unmapped) => {
                    let device = store.describe(run.first_page);
                    let message = format!("{} is not in the chunk map", run.first_page);
                    look(placed, Err(StoreError { device, message }));
                }
            }
            next += 1;
        }
        lane.poll(Some(PATIENCE), &mut finished);
        for RunRead { token, result } in finished.drain(..) {
            pending -= 1;
            look(&runs[token as usize], result);
        }
    }
    Ok(())
}
