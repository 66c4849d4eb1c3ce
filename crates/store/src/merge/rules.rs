//! What a merge does with rows that are there already.

/// What becomes of a row whose primary key is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDuplicate {
    /// The merge fails.
    Refuse,
    /// The new row replaces it.
    Replace,
}

/// What is wanted of changes beyond being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// What becomes of a row whose key is there already.
    pub on_duplicate: OnDuplicate,
    /// Whether unique indexes have yet to be watched over.
    pub check_unique: bool,
}
