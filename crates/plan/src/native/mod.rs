//! Plan nodes whose rows stay in native form between them.
//!
//! DataFusion plans; where our operators apply, [`NativeRule`] puts a node of this module in the place of its own.
//! Between two such nodes flow [`Batch`]es, without a change of form; a node of DataFusion above one sees record
//! batches of exactly the schema that it was planned with.
//!
//! ```text
//!   SortExec                      DataFusion's: record batches
//!     └ NativeAggregateExec       execute(): surface            native(): batches
//!         └ NativeHashJoinExec       ▲ to_surface                  ▲
//!             ├ ColumnScanExec       └──────────── native() ───────┘
//!             └ FilterExec        anything else: from_surface of its batches
//! ```

mod aggregate;
mod columns;
mod foreign;
mod join;
mod offer;
mod options;
mod project;
mod rule;
mod shared;
mod translate;

pub use self::options::NativeOptions;
pub use self::rule::NativeRule;
pub use self::shared::busy;
pub use self::translate::translate;

#[cfg(test)]
mod tests;
