//! What the layers below report, as a statement's error: the one place that decides what kind each of them is.

use std::{fmt, io};

use saki_base::memory::Exhausted;
use saki_base::{DataType, KeyError, ParseError, ParseReason, RowError};
use saki_columns::ColumnsError;
use saki_exec::ExecError;
use saki_page::PageError;
use saki_tree::TreeError;
use saki_vector::VectorError;
use saki_volume::VolumeError;

use super::conditions::out_of_memory;
use super::{SqlError, data_error};

impl From<KeyError> for SqlError {
    fn from(error: KeyError) -> Self {
        Self::data(format!("key: {error}"))
    }
}

impl From<Exhausted> for SqlError {
    fn from(error: Exhausted) -> Self {
        out_of_memory(error)
    }
}

impl From<RowError> for SqlError {
    fn from(error: RowError) -> Self {
        Self::data(format!("row: {error}"))
    }
}

impl From<ParseError> for SqlError {
    fn from(error: ParseError) -> Self {
        let told = Self::data(error.to_string()).code(condition(&error));
        match error.reason {
            ParseReason::Json(fault) => told.detail(fault.detail()),
            _ => told,
        }
    }
}

impl From<io::Error> for SqlError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::disk_full(error),
            _ => Self::storage(error),
        }
    }
}

impl SqlError {
    /// An error of a file, with its path.
    pub fn of_file(path: impl fmt::Display, error: io::Error) -> Self {
        let error = Self::from(error);
        Self { message: format!("{path}: {}", error.message), ..error }
    }
}

impl From<VolumeError> for SqlError {
    fn from(error: VolumeError) -> Self {
        match &error {
            VolumeError::Corrupt { .. } => Self::corrupt(error),
            VolumeError::Misuse { .. } => Self::internal(error),
            VolumeError::Full { .. } => Self::disk_full(error),
            _ => Self::storage(error),
        }
    }
}

impl From<TreeError> for SqlError {
    fn from(error: TreeError) -> Self {
        match &error {
            TreeError::Volume(VolumeError::Full { .. }) => Self::disk_full(error),
            TreeError::Page { tree, error } => page_error(&tree.to_string(), error),
            TreeError::Malformed { .. } => Self::corrupt(error),
            TreeError::KeyTooLong { .. } => key_too_long(error.to_string()),
            TreeError::OutOfOrder { .. } | TreeError::DuplicateKey { .. } => Self::internal(error),
            _ => Self::storage(error),
        }
    }
}

impl From<ColumnsError> for SqlError {
    fn from(error: ColumnsError) -> Self {
        match error {
            ColumnsError::Tree(error) => error.into(),
            ColumnsError::Volume(error) => error.into(),
            ColumnsError::Corrupt(what) => Self::corrupt(format!("column segments: {what}")),
            ColumnsError::Storage(_) => Self::storage(error),
            ColumnsError::Unsupported(_) => Self::unsupported(error.to_string()),
            ColumnsError::Internal(_) => Self::internal(error),
        }
    }
}

impl From<VectorError> for SqlError {
    fn from(error: VectorError) -> Self {
        match error {
            VectorError::Internal(_) => Self::internal(error),
            VectorError::Foreign(foreign) => match foreign.0.downcast_ref::<Self>() {
                Some(ours) => ours.clone(),
                None => data_error(foreign.0.to_string()),
            },
            value => data_error(value.to_string()),
        }
    }
}

impl From<ExecError> for SqlError {
    fn from(error: ExecError) -> Self {
        match &error {
            ExecError::Page { error: page, tree } => page_error(tree, page),
            ExecError::Malformed { .. } => Self::corrupt(error),
            ExecError::Filter(reason) => data_error(reason.clone()),
            ExecError::Vector(VectorError::Internal(_)) => Self::internal(error),
            ExecError::Vector(value) => value.clone().into(),
            ExecError::Segment { error: column, .. } => match **column {
                ColumnsError::Corrupt(_) => Self::corrupt(error),
                ColumnsError::Internal(_) => Self::internal(error),
                _ => Self::storage(error),
            },
            ExecError::Internal(_) | ExecError::Input(_) => Self::internal(error),
            _ => Self::storage(error),
        }
    }
}

impl From<saki_mvcc::Error> for SqlError {
    fn from(error: saki_mvcc::Error) -> Self {
        use saki_mvcc::Error;
        let message = error.to_string();
        match error {
            Error::Duplicate { .. } => Self::constraint(message).code("23505"),
            Error::Deadlock => Self::invalid("deadlock detected: transactions wait for each other's rows")
                .code("40P01")
                .hint("repeat the transaction"),
            Error::Conflict { table, .. } => Self::invalid("could not serialize access due to concurrent update")
                .code("40001")
                .detail(format!("Another transaction has changed a row of table {table:?}."))
                .hint("repeat the transaction"),
            Error::Serialization => {
                Self::invalid("could not serialize access due to read/write dependencies among transactions")
                    .code("40001")
                    .detail("What the transaction read was changed by another.")
                    .hint("repeat the transaction")
            }
            Error::KeyTooLong { .. } => key_too_long(message),
            Error::RowTooLarge { .. } => Self::data(message).code("54000"),
            Error::TooManyParticipants { .. } => Self::invalid(message).code("53300"),
            Error::Memory { .. } => Self::storage(message).code("53200").hint(
                "change fewer rows in one transaction and end old ones; --delta-memory is what newer rows may take",
            ),
            Error::Malformed { .. } => Self::corrupt(message),
            Error::Log(error) if error.is_full() => Self::disk_full(message),
            _ => Self::storage(message),
        }
    }
}

/// The SQLSTATE of text that is no value.
fn condition(error: &ParseError) -> &'static str {
    match error.reason {
        ParseReason::Syntax { .. } => match error.data_type {
            DataType::Date | DataType::Timestamp | DataType::Timestamptz | DataType::Time | DataType::Interval => {
                "22007"
            }
            _ => "22P02",
        },
        ParseReason::OutOfRange | ParseReason::NumericOverflow { .. } => "22003",
        ParseReason::FieldOutOfRange { .. } => "22008",
        ParseReason::TooLong { .. } => "22001",
        ParseReason::ZeroCharacter => "22021",
        ParseReason::NoLabel | ParseReason::Array => "22P02",
        ParseReason::Dimensions => "0A000",
        ParseReason::Json(fault) => fault.sqlstate(),
    }
}

fn key_too_long(message: String) -> SqlError {
    SqlError::data(message).code("54000").hint("use shorter keys, or a database of larger pages")
}

fn page_error(tree: &str, error: &PageError) -> SqlError {
    match error {
        PageError::Corrupt { .. } => SqlError::corrupt(format!("{tree}: {error}")),
        _ => SqlError::storage(format!("{tree}: {error}")),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_full_disk_is_told_from_a_failing_one_whichever_layer_meets_it() {
        let full = || VolumeError::Full { device: "disk".into() };
        for error in [SqlError::from(full()), TreeError::Volume(full()).into(), ColumnsError::Volume(full()).into()] {
            assert_eq!((error.kind, error.sqlstate()), (ErrorKind::Storage, "53100"), "{error}");
        }
    }

    #[test]
    fn a_full_disk_under_a_file_is_told_with_its_path() {
        let error = SqlError::of_file("/t.csv", io::ErrorKind::StorageFull.into());
        assert_eq!((error.kind, error.sqlstate()), (ErrorKind::Storage, "53100"));
        assert!(error.message.starts_with("/t.csv: "), "{error}");
        assert_eq!(SqlError::from(io::Error::from(io::ErrorKind::NotFound)).sqlstate(), "58030");
    }

    #[test]
    fn text_that_is_no_value_has_the_condition_of_its_reason() {
        use saki_base::Value;
        let error = |data_type, text| SqlError::from(Value::parse(data_type, text).unwrap_err());
        assert_eq!(error(DataType::Int4, "x").sqlstate(), "22P02");
        assert_eq!(error(DataType::Int2, "70000").sqlstate(), "22003");
        assert_eq!(error(DataType::Date, "x").sqlstate(), "22007");
    }

    #[test]
    fn values_that_cannot_be_computed_are_the_datas_fault() {
        for (error, code) in
            [(VectorError::DivisionByZero, "22012"), (VectorError::OutOfRange("bigint".into()), "22003")]
        {
            let (direct, in_a_run) = (SqlError::from(error.clone()), SqlError::from(ExecError::Vector(error)));
            assert_eq!((direct.kind, direct.sqlstate()), (ErrorKind::Data, code));
            assert_eq!((in_a_run.kind, in_a_run.sqlstate()), (ErrorKind::Data, code));
        }
        assert_eq!(SqlError::from(VectorError::Internal("x".into())).kind, ErrorKind::Internal);
    }

    #[test]
    fn transactions_that_may_be_repeated_say_so() {
        let error = SqlError::from(saki_mvcc::Error::Deadlock);
        assert_eq!((error.sqlstate(), error.hint.as_deref()), ("40P01", Some("repeat the transaction")));
    }
}
