//! What an owner's own tables look like just now: they are altered while everybody reads them.

/// Whose rows and tables they are: the number of a client.
pub type Owner = usize;

/// Extra columns of an own table, at most.
pub const EXTRAS_MAX: usize = 3;

/// What may be different of an owner's tables.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shape {
    pub is_renamed: bool,
    /// Whether the column `n` has its other name.
    pub is_n_renamed: bool,
    /// Columns behind the others, in their order.
    pub extras: Vec<Extra>,
    /// `CHECK (n < …)`.
    pub below: Option<i64>,
    /// `UNIQUE (n, tag)`.
    pub is_unique: bool,
    /// `link` refers to rows of `wide`.
    pub link: Option<OnDelete>,
    /// Whether there is a table that was made of a query.
    pub has_copy: bool,
}

/// A column that came later: its number and its default, which are its name too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extra {
    pub number: u64,
    pub default: i64,
}

impl Extra {
    pub fn name(self) -> String {
        format!("extra_{}_{}", self.number, self.default)
    }
}

/// What happens to rows that refer to one that is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDelete {
    Refuse,
    Cascade,
    SetNull,
}

impl OnDelete {
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Cascade, Self::SetNull];

    pub fn clause(self) -> &'static str {
        match self {
            Self::Refuse => "",
            Self::Cascade => " ON DELETE CASCADE",
            Self::SetNull => " ON DELETE SET NULL",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Cascade => "cascade",
            Self::SetNull => "set_null",
        }
    }
}

/// The names that the own table of an owner may have: the first, and the other.
pub fn names(owner: Owner) -> [String; 2] {
    [format!("own_{owner}"), format!("owned_{owner}")]
}

/// The constraints that an own table may have, by their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constraint {
    Below(i64),
    Unique,
    Link(OnDelete),
}

impl Constraint {
    pub fn name(self, owner: Owner) -> String {
        match self {
            Self::Below(bound) => format!("below_{bound}_{owner}"),
            Self::Unique => format!("unique_{owner}"),
            Self::Link(on_delete) => format!("link_{}_{owner}", on_delete.name()),
        }
    }
}

impl Shape {
    pub fn own_name(&self, owner: Owner) -> String {
        let [name, other] = names(owner);
        if self.is_renamed { other } else { name }
    }

    pub fn n(&self) -> &'static str {
        if self.is_n_renamed { "m" } else { "n" }
    }

    /// All columns of the own table, in their order.
    pub fn own_columns(&self) -> Vec<String> {
        let first = ["id", self.n(), "tag", "pad", "link"].map(str::to_owned);
        first.into_iter().chain(self.extras.iter().map(|extra| extra.name())).collect()
    }

    /// What a new row has in the extra columns.
    pub fn defaults(&self) -> Vec<i64> {
        self.extras.iter().map(|extra| extra.default).collect()
    }

    pub fn constraints(&self) -> Vec<Constraint> {
        let below = self.below.map(Constraint::Below);
        let unique = self.is_unique.then_some(Constraint::Unique);
        below.into_iter().chain(unique).chain(self.link.map(Constraint::Link)).collect()
    }

    /// Adds a constraint, or takes it away.
    pub fn set(&mut self, constraint: Constraint, is_there: bool) {
        match constraint {
            Constraint::Below(bound) => self.below = is_there.then_some(bound),
            Constraint::Unique => self.is_unique = is_there,
            Constraint::Link(on_delete) => self.link = is_there.then_some(on_delete),
        }
    }
}
