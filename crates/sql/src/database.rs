use crate::error::SqlError;
pub fn exec_error(error: saki_exec::ExecError) -> SqlError { SqlError::storage(error) }
