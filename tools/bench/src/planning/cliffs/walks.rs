//! The table, and the ways to find some of its rows.

use std::fmt;

use saki_sql::ScalarValue;

/// A column by which rows are found: its value in row `i` grows with `i`, as SQL writes it and as a parameter.
#[derive(Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub literal: fn(u32) -> String,
    pub value: fn(u32) -> ScalarValue,
}

/// When the first row was made, in microseconds since 1970: the beginning of 2024.
const BEGINNING: i64 = 1_704_067_200_000_000;

/// Of each type; the key first, then an index whose rows lie scattered.
pub const COLUMNS: [Column; 8] = [
    Column { name: "id", literal: |i| i.to_string(), value: |i| ScalarValue::Int32(Some(i as i32)) },
    Column { name: "k", literal: |i| i.to_string(), value: |i| ScalarValue::Int32(Some(i as i32)) },
    Column {
        name: "b",
        literal: |i| (i64::from(i) * 10_000_000_000).to_string(),
        value: |i| ScalarValue::Int64(Some(i64::from(i) * 10_000_000_000)),
    },
    Column {
        name: "n",
        literal: |i| format!("{}.{:02}", i / 100, i % 100),
        value: |i| ScalarValue::Decimal128(Some(i128::from(i)), 38, 2),
    },
    Column { name: "c", literal: |i| format!("'{i:08}'"), value: |i| ScalarValue::Utf8(Some(format!("{i:08}"))) },
    Column {
        name: "t",
        literal: |i| format!("'{i:08} and more'"),
        value: |i| ScalarValue::Utf8(Some(format!("{i:08} and more"))),
    },
    Column {
        name: "u",
        literal: |i| format!("'00000000-0000-0000-0000-{i:012}'"),
        value: |i| {
            let digits = u128::from_str_radix(&i.to_string(), 16).unwrap_or_default();
            ScalarValue::FixedSizeBinary(16, Some(digits.to_be_bytes().to_vec()))
        },
    },
    Column {
        name: "ts",
        literal: |i| {
            let (day, second) = (i / 86_400, i % 86_400);
            format!("'2024-01-{:02} {:02}:{:02}:{:02}'", day + 1, second / 3600, second / 60 % 60, second % 60)
        },
        value: |i| ScalarValue::TimestampMicrosecond(Some(BEGINNING + i64::from(i) * 1_000_000), None),
    },
];

/// What makes the table, and fills it: in a transaction, so that its rows are changes that are not merged yet.
pub fn tables(rows: u32) -> Vec<String> {
    let mut all = vec![
        "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, b bigint NOT NULL, n numeric(12,2) NOT NULL, \
         c char(12) NOT NULL, t text NOT NULL, u uuid NOT NULL, ts timestamp NOT NULL)"
            .to_owned(),
    ];
    let indexed = COLUMNS.iter().filter(|column| column.name != "id");
    all.extend(indexed.map(|column| format!("CREATE INDEX t_{0} ON t ({0})", column.name)));
    let fill = format!(
        "INSERT INTO t SELECT i, i::bigint * 7919 % {rows}, i * 10000000000::bigint, i / 100.0, lpad(i::text, 8, '0'), \
         lpad(i::text, 8, '0') || ' and more', ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, \
         timestamp '2024-01-01 00:00:00' + i * interval '1 second' FROM generate_series(0, {}) AS s (i)",
        rows - 1
    );
    all.extend(["BEGIN".to_owned(), fill, "COMMIT".to_owned()]);
    all
}

/// How rows are found, and what becomes of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Between,
    List,
    /// A list of rows of two columns.
    Pairs,
    /// In order, as many as LIMIT says.
    First,
    /// All of them, and the first ten in another order are given.
    Top,
    Sum,
    /// Ten rows behind as many as OFFSET says.
    Offset,
    /// Each, if there is a row in the same table that the other index finds.
    Exists,
}

/// Where the rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Merged,
    /// Not merged.
    Newer,
    /// Merged, and a tenth changed since.
    Mixed,
    /// Merged, in a database that was opened just now.
    Opened,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Merged, Self::Newer, Self::Mixed, Self::Opened];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Merged => "merged",
            Self::Newer => "newer",
            Self::Mixed => "mixed",
            Self::Opened => "opened",
        })
    }
}

/// From one row to all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// By number, of `COLUMNS`.
    column: usize,
    access: Access,
    is_text: bool,
    state: State,
}

/// A statement, values for its parameters, and how many rows it gives.
pub struct Statement {
    pub sql: String,
    pub values: Vec<ScalarValue>,
    pub given: usize,
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Between => "BETWEEN",
            Access::List => "IN",
            Access::Pairs => "pairs IN",
            Access::First => "ORDER BY LIMIT",
            Access::Top => "top 10 of BETWEEN",
            Access::Sum => "sum of BETWEEN",
            Access::Offset => "ORDER BY OFFSET",
            Access::Exists => "BETWEEN and EXISTS",
        };
        let form = if self.is_text { "text" } else { "parameters" };
        write!(f, "{} {access}, {form}, {}", COLUMNS[self.column].name, self.state)
    }
}

impl Walk {
    /// All of a state: everything by the key and by an index whose rows are scattered, and ranges of each type.
    pub fn all(state: State, is_small: bool) -> Vec<Self> {
        use Access::{Between, Exists, First, List, Offset, Pairs, Sum, Top};
        let accesses = [Between, List, Pairs, First, Top, Sum, Offset, Exists];
        let mut all = Vec::new();
        for column in 0..2 {
            // In a row where k is a number, b is not the same multiple of it.
            for access in accesses.into_iter().filter(|access| *access != Pairs || column == 0) {
                // Each value of a pair is a parameter of its own, of which there are not so many.
                let forms = if access == Pairs { &[true][..] } else { &[false, true] };
                all.extend(forms.iter().map(|is_text| Self { column, access, is_text: *is_text, state }));
            }
        }
        for column in 2..COLUMNS.len() {
            all.push(Self { column, access: Access::Between, is_text: false, state });
        }
        // Each way once, each state once.
        all.retain(|walk| !is_small || state == State::Merged || walk.access == Access::Between && walk.column < 2);
        all
    }

    /// The same with parameters, in the place of text.
    pub fn with_parameters(self) -> Option<Self> {
        (self.is_text && self.access != Access::Pairs).then_some(Self { is_text: false, ..self })
    }

    /// The same over merged rows, in the place of newer ones.
    pub fn merged(self) -> Option<Self> {
        matches!(self.state, State::Newer | State::Mixed).then_some(Self { state: State::Merged, ..self })
    }

    /// The same in memory, in the place of a database that was opened just now.
    pub fn in_memory(self) -> Option<Self> {
        (self.state == State::Opened).then_some(Self { state: State::Merged, ..self })
    }

    /// The same by `bigint`, in the place of another type that is indexed in the order of the rows.
    pub fn of_integers(self) -> Option<Self> {
        (self.column > 2).then_some(Self { column: 2, ..self })
    }

    /// Rows that are touched in its last step: of pairs not all, whose text is long.
    pub fn rows_max(self, rows: u32) -> u32 {
        if self.access == Access::Pairs { rows / 4 } else { rows }
    }

    /// Touches so many rows of a table of `rows` from one on; of a list they lie apart.
    pub fn statement(self, first: u32, touched: u32, rows: u32) -> Statement {
        let column = &COLUMNS[self.column];
        let value = |i: u32| if self.is_text { (column.literal)(i) } else { String::new() };
        let parameter = |number: usize, text: String| if self.is_text { text } else { format!("${number}") };
        let last = first + touched - 1;
        let name = column.name;
        let between = format!("{name} BETWEEN {} AND {}", parameter(1, value(first)), parameter(2, value(last)));
        let mut values = vec![(column.value)(first), (column.value)(last)];
        let mut given = touched as usize;
        let sql = match self.access {
            Access::Between => format!("SELECT id, c, n FROM t WHERE {between}"),
            Access::Top => {
                given = given.min(10);
                format!("SELECT id, c, n FROM t WHERE {between} ORDER BY t DESC LIMIT 10")
            }
            Access::Sum => {
                given = 1;
                format!("SELECT count(*), sum(k), min(id), max(n) FROM t WHERE {between}")
            }
            Access::First => {
                values[1] = ScalarValue::Int64(Some(i64::from(touched)));
                let (from, limit) = (parameter(1, value(first)), parameter(2, touched.to_string()));
                format!("SELECT id, c, n FROM t WHERE {name} >= {from} ORDER BY {name} LIMIT {limit}")
            }
            Access::Offset => {
                given = (rows - last - 1).min(10) as usize;
                values[1] = ScalarValue::Int64(Some(i64::from(touched)));
                let (from, passed) = (parameter(1, value(first)), parameter(2, touched.to_string()));
                format!("SELECT id, c, n FROM t WHERE {name} >= {from} ORDER BY {name} LIMIT 10 OFFSET {passed}")
            }
            Access::Exists => {
                format!("SELECT id, c FROM t WHERE {between} AND EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k)")
            }
            Access::Pairs => {
                let apart = (rows - first) / touched;
                let pair = |i: u32| format!("({}, {})", (column.literal)(i), i64::from(i) * 10_000_000_000);
                let list: Vec<_> = (0..touched).map(|i| pair(first + i * apart)).collect();
                format!("SELECT id, c, n FROM t WHERE ({name}, b) IN ({})", list.join(", "))
            }
            Access::List => {
                let apart = (rows - first) / touched;
                let wanted = (0..touched).map(|i| first + i * apart);
                if self.is_text {
                    let list: Vec<_> = wanted.map(column.literal).collect();
                    format!("SELECT id, c, n FROM t WHERE {name} IN ({})", list.join(", "))
                } else {
                    let list: Vec<_> = wanted.map(column.value).collect();
                    values = vec![ScalarValue::List(ScalarValue::new_list_nullable(&list, &list[0].data_type()))];
                    format!("SELECT id, c, n FROM t WHERE {name} = ANY($1)")
                }
            }
        };
        if self.is_text {
            values.clear();
        }
        Statement { sql, values, given }
    }
}
