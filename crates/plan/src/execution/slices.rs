//! An input in smaller batches: of so many rows, or of as many as take little time.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};

use crate::node::Passing;

/// How long a thread computes before it is given back, about.
const TURN: Duration = Duration::from_millis(10);

/// How small the batches are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Of so many rows at most.
    Rows(usize),
    /// Of as many as are worked on in a part of a turn, and the thread is given back after each turn.
    Slices,
    /// As they come, and the thread is given back after each turn.
    Batches,
}

/// Passes rows on in small batches.
impl Passing for Pace {
    fn name(&self) -> &'static str {
        match self {
            Self::Rows(_) => "NarrowExec",
            Self::Slices | Self::Batches => "YieldingExec",
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{}: batch_rows={rows}", self.name()),
            Self::Slices | Self::Batches => f.write_str(self.name()),
        }
    }

    fn pass(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> Result<SendableRecordBatchStream> {
        let schema = rows.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, Slices::new(rows, *self))))
    }

    fn benefits_from_input_partitioning(&self) -> bool {
        true
    }

    fn yields(&self) -> bool {
        !matches!(self, Self::Rows(_))
    }
}

/// A stream in small batches.
pub struct Slices {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// Rows of the next slice.
    rows: usize,
    /// Whether they are as many as take a part of a turn.
    cuts: bool,
    /// If the thread is given back now and then.
    turn: Option<Turn>,
}

struct Turn {
    /// Since when the thread has not been given back.
    since: Instant,
    /// When the last slice was given, until it is known how long that took.
    given: Option<Instant>,
}

impl Slices {
    pub fn new(input: SendableRecordBatchStream, pace: Pace) -> Self {
        let turn = || Some(Turn { since: Instant::now(), given: None });
        let (rows, turn) = match pace {
            Pace::Rows(rows) => (rows, None),
            Pace::Slices => (1, turn()),
            Pace::Batches => (usize::MAX, turn()),
        };
        Self { input, rest: None, rows, cuts: pace == Pace::Slices, turn }
    }

    /// The next rows of a batch; the rest is kept.
    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = batch.num_rows();
        if rows <= self.rows {
            return batch;
        }
        self.rest = Some(batch.slice(self.rows, rows - self.rows));
        batch.slice(0, self.rows)
    }
}

impl Turn {
    /// Rows of the next slice, from how long the last one took.
    fn adapted(&mut self, rows: usize) -> usize {
        match self.given.take().map(|given| given.elapsed()) {
            Some(took) if took < TURN / 8 => rows.saturating_mul(2),
            Some(took) if took > TURN => (rows / 2).max(1),
            _ => rows,
        }
    }

    /// Whether it is over; then the next one begins.
    fn is_over(&mut self) -> bool {
        let is_over = self.since.elapsed() >= TURN;
        if is_over {
            self.since = Instant::now();
        }
        is_over
    }
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let slices = &mut *self;
        if let Some(turn) = &mut slices.turn {
            if slices.cuts {
                slices.rows = turn.adapted(slices.rows);
            }
            if turn.is_over() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let batch = match slices.rest.take() {
            Some(batch) => batch,
            None => match ready!(slices.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                end => return Poll::Ready(end),
            },
        };
        let slice = slices.cut(batch);
        if let Some(turn) = &mut slices.turn {
            turn.given = Some(Instant::now());
        }
        Poll::Ready(Some(Ok(slice)))
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{block_on, memory_plan, small_batch, small_schema, task_context};
    use crate::node::PassingExec;

    fn slices(batches: Vec<RecordBatch>, pace: Pace) -> Slices {
        let input = RecordBatchStreamAdapter::new(small_schema(), stream::iter(batches.into_iter().map(Ok)));
        Slices::new(Box::pin(input), pace)
    }

    fn numbered(rows: i64) -> RecordBatch {
        small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn slices_are_the_rows_of_the_input_in_order(
            sizes in prop::collection::vec(0_i64..40, 0..6),
            pace in prop_oneof![Just(Pace::Slices), Just(Pace::Batches), (1_usize..20).prop_map(Pace::Rows)],
        ) {
            let batches: Vec<RecordBatch> = sizes.iter().map(|rows| numbered(*rows)).collect();
            let given = block_on(slices(batches.clone(), pace).collect::<Vec<_>>());
            let given: Vec<RecordBatch> = given.into_iter().map(Result::unwrap).collect();
            let together = |batches: &[RecordBatch]| arrow::compute::concat_batches(&small_schema(), batches).unwrap();
            prop_assert_eq!(together(&given), together(&batches));
            if let Pace::Rows(rows) = pace {
                prop_assert!(given.iter().all(|batch| batch.num_rows() <= rows));
            }
        }
    }

    #[test]
    fn slices_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let ago = |turns: u32| Instant::now().checked_sub(TURN * turns / 2);
        let mut turn = Turn { since: Instant::now(), given: Some(Instant::now()) };
        assert_eq!(turn.adapted(1), 2);
        turn.given = ago(6);
        assert_eq!(turn.adapted(64), 32);
        turn.given = ago(1);
        assert_eq!(turn.adapted(32), 32, "about right");
        assert_eq!(turn.adapted(32), 32, "nothing was given meanwhile");
        turn.given = ago(6);
        assert_eq!(turn.adapted(1), 1);
    }

    #[test]
    fn the_thread_is_given_back_when_a_turn_is_over() {
        let mut slices = slices(vec![numbered(10)], Pace::Slices);
        slices.turn.as_mut().unwrap().since = Instant::now().checked_sub(TURN * 2).unwrap();
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(slices.poll_next_unpin(&mut context).is_pending());
        assert!(slices.poll_next_unpin(&mut context).is_ready(), "a new turn");
    }

    #[test]
    fn an_error_of_the_input_comes_through() {
        for pace in [Pace::Slices, Pace::Batches, Pace::Rows(1)] {
            let failing = stream::iter([Err(datafusion::common::DataFusionError::Execution("broken".into()))]);
            let input = RecordBatchStreamAdapter::new(small_schema(), failing);
            let mut slices = Slices::new(Box::pin(input), pace);
            assert!(block_on(slices.next()).unwrap().unwrap_err().to_string().contains("broken"));
            let plan = PassingExec::plan(memory_plan(&[vec![numbered(2)]], &small_schema()), pace);
            assert!(plan.execute(0, task_context(1)).is_ok());
            assert_eq!(plan.maintains_input_order(), [true]);
        }
    }
}
