//! What a change of a base makes of rows whose keys are there already.

/// What becomes of a row whose primary key is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict {
    /// The statement fails.
    Refuse,
    /// The new row replaces it.
    Replace,
}
