//! A segment being scanned: where its columns are.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use arrow_array::BooleanArray;
use saki_columns::{ColumnsError, Fetch, Load, Resident, RunContent, Segment, Test, missing_column};
use saki_vector::{Batch, Column};

use super::metrics::ScanCounts;
use super::reader::Request;
use super::setup::ScanSetup;
use crate::error::ExecError;

/// Where rows come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    Segment(usize),
    /// A part of what lies over the segments: in memory, and made when somebody works on it.
    Overlay(usize),
}

/// A segment that may have a row, and its columns, as far as they have been asked for.
pub(super) struct ScanSegment {
    pub origin: Origin,
    /// Conditions that zones have not decided.
    pub conditions: Vec<usize>,
    /// By position in the scan's columns.
    states: Vec<ColumnState>,
    /// Bytes of the runs on their way.
    pub loading_bytes: usize,
}

enum ColumnState {
    Unasked,
    Loading(Arc<Load>),
    Resident(Arc<Resident>),
    /// The segment lacks it: there is nothing to read.
    Missing,
    Decoded(Column),
}

impl ScanSegment {
    pub fn new(origin: Origin, conditions: Vec<usize>, columns: usize) -> Self {
        let states = (0..columns).map(|_| ColumnState::Unasked).collect();
        Self { origin, conditions, states, loading_bytes: 0 }
    }

    /// How many rows there are. Those of an overlay are made.
    pub fn open(&mut self, setup: &ScanSetup) -> Result<usize, ExecError> {
        let part = match self.origin {
            Origin::Segment(index) => return Ok(setup.scan.table.segments[index].rows as usize),
            Origin::Overlay(part) => part,
        };
        let overlay = setup.scan.overlay.as_ref();
        let overlay = overlay.ok_or_else(|| ExecError::Internal("a part of no overlay".into()))?;
        let Batch { columns, rows } = overlay.rows(part, &setup.columns)?;
        if columns.len() != setup.columns.len() || columns.iter().any(|column| column.len() != rows) {
            return Err(ExecError::Overlay("not the columns that were asked for".into()));
        }
        self.states = columns.into_iter().map(ColumnState::Decoded).collect();
        Ok(rows)
    }

    fn segment<'a>(&self, setup: &'a ScanSetup) -> Option<&'a Segment> {
        match self.origin {
            Origin::Segment(index) => setup.scan.table.segments.get(index),
            Origin::Overlay(_) => None,
        }
    }

    /// Asks for a column, unless that has been done; what has to be read for it is added to `requests`.
    pub fn ask(&mut self, setup: &ScanSetup, position: usize, requests: &mut Vec<Request>, counts: &mut ScanCounts) {
        if !matches!(self.states[position], ColumnState::Unasked) {
            return;
        }
        let Some(segment) = self.segment(setup) else { return };
        let pages = &segment.columns[setup.columns[position]];
        if pages.is_missing() {
            self.states[position] = ColumnState::Missing;
            return;
        }
        self.states[position] = match setup.reader.cache.fetch(pages.first_page) {
            Fetch::Resident(resident) => {
                counts.runs_cached += 1;
                ColumnState::Resident(resident)
            }
            Fetch::Joined(load) => {
                counts.runs_shared += 1;
                self.loading_bytes += pages.bytes as usize;
                ColumnState::Loading(load)
            }
            Fetch::Begun(load) => {
                counts.runs_read += 1;
                counts.bytes_read += u64::from(pages.bytes);
                self.loading_bytes += pages.bytes as usize;
                requests.push(Request {
                    load: Arc::downgrade(&load),
                    first: pages.first_page,
                    bytes: pages.bytes as usize,
                    checksum: pages.checksum,
                    share: Arc::clone(&setup.share),
                });
                ColumnState::Loading(load)
            }
        };
    }

    /// Whether every column asked for has come.
    pub fn has_come(&self) -> bool {
        self.states.iter().all(|state| !matches!(state, ColumnState::Loading(load) if !load.has_ended()))
    }

    /// Ready once every column asked for has come; wakes `context` when one more has.
    pub fn poll(&mut self, setup: &ScanSetup, context: &mut Context<'_>) -> Poll<Result<(), ExecError>> {
        for position in 0..self.states.len() {
            let ColumnState::Loading(load) = &self.states[position] else { continue };
            match load.poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(resident)) => self.states[position] = ColumnState::Resident(resident),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.error(setup, position, error))),
            }
        }
        self.loading_bytes = 0;
        Poll::Ready(Ok(()))
    }

    /// The values of a column that has come.
    pub fn column(&mut self, setup: &ScanSetup, position: usize, counts: &mut ScanCounts) -> Result<Column, ExecError> {
        let resident = match &self.states[position] {
            ColumnState::Decoded(column) => return Ok(column.clone()),
            ColumnState::Missing => return self.missing(setup, position),
            ColumnState::Resident(resident) => resident,
            ColumnState::Unasked | ColumnState::Loading(_) => {
                return Err(ExecError::Internal("a column is used before it has come".into()));
            }
        };
        let begun = (!resident.is_decoded()).then(Instant::now);
        let column = setup.reader.cache.column(resident, &self.content(setup, position)?);
        counts.decode_nanos += begun.map_or(0, |begun| begun.elapsed().as_nanos() as u64);
        let column = column.map_err(|error| self.error(setup, position, error))?;
        self.states[position] = ColumnState::Decoded(column.clone());
        Ok(column)
    }

    /// The values of a column that the segment lacks.
    fn missing(&mut self, setup: &ScanSetup, position: usize) -> Result<Column, ExecError> {
        let column = &setup.scan.table.columns[setup.columns[position]];
        let rows = self.segment(setup).map_or(0, |segment| segment.rows as usize);
        let values = missing_column(column, rows).map_err(|error| self.error(setup, position, error))?;
        self.states[position] = ColumnState::Decoded(values.clone());
        Ok(values)
    }

    /// The rows that pass a test of a column that has come, if its encoded bytes tell.
    pub fn select(&self, setup: &ScanSetup, position: usize, test: &Test) -> Result<Option<BooleanArray>, ExecError> {
        let ColumnState::Resident(resident) = &self.states[position] else { return Ok(None) };
        let rows = setup.reader.cache.select(resident, &self.content(setup, position)?, test);
        rows.map_err(|error| self.error(setup, position, error))
    }

    fn content<'a>(&self, setup: &'a ScanSetup, position: usize) -> Result<RunContent<'a>, ExecError> {
        let column = setup.columns[position];
        let segment = self.segment(setup).ok_or_else(|| ExecError::Internal("a run outside of segments".into()))?;
        Ok(RunContent {
            run: &segment.columns[column],
            data_type: setup.scan.table.columns[column].data_type,
            rows: segment.rows as usize,
            codec: &*setup.reader.codec,
        })
    }

    fn error(&self, setup: &ScanSetup, position: usize, error: ColumnsError) -> ExecError {
        let table = &setup.scan.table;
        ExecError::Segment {
            table: table.name.clone(),
            segment: match self.origin {
                Origin::Segment(index) | Origin::Overlay(index) => index,
            },
            column: table.columns[setup.columns[position]].name.clone(),
            error: Box::new(error),
        }
    }
}
