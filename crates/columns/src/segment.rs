//! What the directory says of a segment: where its columns lie and what is in them.

use saki_base::{DataType, PageAddress, Value};

use crate::zone::Zone;

/// Rows of a segment at most.
pub const SEGMENT_ROWS: u32 = 128 << 10;

/// A column of a table, as segments hold it.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnType {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    /// What all rows of segments have that were written before the column was the table's; `None`: there are none.
    pub missing: Option<Value>,
}

/// What runs segments of a table may have. Each column has a *place*, which stays its own: entries and parts of chunks
/// name it. The table's columns have the places, in their order, that no dropped column has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SegmentColumns {
    columns: Vec<ColumnType>,
    /// One for each place.
    places: Vec<Place>,
    /// Of each of the columns.
    place_of: Vec<usize>,
}

/// Whose a place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The table's column with that position.
    Column(usize),
    /// A column of this type that the table has no longer: older segments may have runs of it.
    Dropped(DataType),
}

impl SegmentColumns {
    /// Of a table with these columns; `dropped`: places of columns that it has no longer, ascending, and their types.
    pub fn new(columns: Vec<ColumnType>, dropped: impl IntoIterator<Item = (usize, DataType)>) -> Self {
        let mut dropped = dropped.into_iter().peekable();
        let (mut places, mut place_of) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        loop {
            if let Some((_, data_type)) = dropped.next_if(|(place, _)| *place == places.len()) {
                places.push(Place::Dropped(data_type));
            } else if place_of.len() < columns.len() {
                place_of.push(places.len());
                places.push(Place::Column(place_of.len() - 1));
            } else {
                return Self { columns, places, place_of };
            }
        }
    }

    /// The table's columns.
    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// Whose the places are, from the first one on.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The place of the table's column with a position.
    pub fn place_of(&self, column: usize) -> usize {
        self.place_of[column]
    }
}

/// Of a table that has lost none.
impl From<Vec<ColumnType>> for SegmentColumns {
    fn from(columns: Vec<ColumnType>) -> Self {
        Self::new(columns, [])
    }
}

/// Consecutive rows of a table in primary-key order.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment {
    /// Encoded primary key of the first row.
    pub first_key: Vec<u8>,
    pub rows: u32,
    /// One for each column of the table.
    pub columns: Vec<ColumnRun>,
    /// Runs that it still has of columns that the table has lost, by their places.
    pub dropped: Vec<(usize, DroppedRun)>,
}

/// A run that nobody reads any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DroppedRun {
    pub first_page: PageAddress,
    /// As [`ColumnRun::bytes`].
    pub bytes: u32,
    /// As [`ColumnRun::checksum`].
    pub checksum: u64,
}

/// One column of a segment: an encoded blob in consecutive pages. If the segment lacks the column it has no pages, and
/// its zone says what all rows have ([`ColumnType::missing`]).
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnRun {
    pub first_page: PageAddress,
    /// Of the blob, without the zeros that fill up the last page.
    pub bytes: u32,
    /// xxh3-64 of the blob.
    pub checksum: u64,
    pub zone: Zone,
}

impl ColumnRun {
    /// Of a column that a segment lacks.
    pub(crate) fn missing(zone: Zone) -> Self {
        Self { first_page: PageAddress(0), bytes: 0, checksum: 0, zone }
    }

    /// Whether the segment lacks the column: then there is nothing to read.
    pub fn is_missing(&self) -> bool {
        self.bytes == 0
    }

    /// The run's pages, of `page_bytes` each.
    pub fn pages(&self, page_bytes: usize) -> impl Iterator<Item = PageAddress> + use<> {
        self.without_zone().pages(page_bytes)
    }

    pub fn page_count(&self, page_bytes: usize) -> u64 {
        self.without_zone().page_count(page_bytes)
    }

    /// Where its bytes are, and what they have to be: as much as is known of a dropped one.
    pub(crate) fn without_zone(&self) -> DroppedRun {
        let Self { first_page, bytes, checksum, .. } = *self;
        DroppedRun { first_page, bytes, checksum }
    }
}

impl DroppedRun {
    /// As [`ColumnRun::pages`].
    pub fn pages(&self, page_bytes: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let first = self.first_page.0;
        (first..first + self.page_count(page_bytes)).map(PageAddress)
    }

    pub fn page_count(&self, page_bytes: usize) -> u64 {
        u64::from(self.bytes).div_ceil(page_bytes as u64)
    }
}

impl Segment {
    /// Pages of all columns, those included that the table has lost.
    pub fn pages(&self, page_bytes: usize) -> impl Iterator<Item = PageAddress> + '_ {
        let dropped = self.dropped.iter().flat_map(move |(_, run)| run.pages(page_bytes));
        self.columns.iter().flat_map(move |run| run.pages(page_bytes)).chain(dropped)
    }

    /// Bytes of all columns, encoded, those included that the table has lost.
    pub fn bytes(&self) -> u64 {
        let dropped = self.dropped.iter().map(|(_, run)| run.bytes);
        self.columns.iter().map(|run| run.bytes).chain(dropped).map(u64::from).sum()
    }

    /// Parts with its runs of columns that the table has lost; their pages, which are the caller's to give back.
    pub fn take_dropped(&mut self, page_bytes: usize) -> Vec<PageAddress> {
        let dropped = std::mem::take(&mut self.dropped);
        dropped.iter().flat_map(|(_, run)| run.pages(page_bytes)).collect()
    }
}
