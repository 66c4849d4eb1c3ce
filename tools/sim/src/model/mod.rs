//! What may be seen.
//!
//! Every row belongs to one client, its owner, and nobody else changes it; so do some tables. So what an owner's rows
//! have been, and what its tables looked like, is one line of versions, one for each of its transactions, whatever the
//! others did meanwhile; and what a statement saw of them must be one of the versions that were possible between its
//! beginning and its end. All that an owner has changes from version to version at once.
//!
//! ```text
//!   owner 0   v0 ─── v1 ─── v2 ─── v3        what a reader saw: v1 of owner 0, v0 of owner 1, and therefore not
//!   owner 1   v0 ────────── v1 ─── v2        a version that was begun after another one was told that it lacks
//! ```
//!
//! - What has been told to a client, as done or as seen, is there from then on, through every restart.
//! - What was under way when the power went, or failed without saying how it ended, is there as a whole or not at all.

pub mod shape;

use std::collections::BTreeMap;
use std::fmt;

pub use self::shape::Owner;
use self::shape::Shape;

/// A table of the model's: see `tables`.
pub type TableNumber = usize;
/// All rows of one owner.
pub type Rows = BTreeMap<(TableNumber, i64), Row>;

/// All that one owner has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    pub rows: Rows,
    /// What its own tables look like.
    pub shape: Shape,
}

/// What a row holds beside its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    pub n: i64,
    pub tag: String,
    pub pad: String,
    /// In an owner's own table: a key of `wide`, as it is stored, and the columns that came later.
    pub link: Option<i64>,
    pub extras: Vec<i64>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n {} tag {} pad of {}", self.n, self.tag, self.pad.len())?;
        if let Some(link) = self.link {
            write!(f, " link {link}")?;
        }
        self.extras.iter().try_for_each(|extra| write!(f, " extra {extra}"))
    }
}

/// What is known of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It may happen, or have happened.
    Open,
    Committed,
    Aborted,
}

struct Version {
    state: State,
    fate: Fate,
    /// The events at which it could first be seen, and at which it was told.
    began: u64,
    told: u64,
}

struct Line {
    versions: Vec<Version>,
    /// Everybody sees this version or a later one.
    floor: usize,
}

/// All owners' lines of versions.
pub struct Model {
    lines: Vec<Line>,
    events: u64,
}

/// Which versions a reader may have seen, owner by owner: those that explain all it has seen so far.
#[derive(Clone, Debug)]
pub struct Window {
    floors: Vec<usize>,
    /// `None` before the first look.
    possible: Option<Vec<Vec<usize>>>,
}

impl Model {
    pub fn new(owners: usize) -> Self {
        let first = || Version { state: State::default(), fate: Fate::Committed, began: 0, told: 0 };
        Self { lines: (0..owners).map(|_| Line { versions: vec![first()], floor: 0 }).collect(), events: 0 }
    }

    pub fn owners(&self) -> usize {
        self.lines.len()
    }

    /// What an owner has, if all its transactions have come to a known end.
    pub fn state(&self, owner: Owner) -> &State {
        let versions = &self.lines[owner].versions;
        &versions.iter().rev().find(|version| version.fate == Fate::Committed).expect("the first one").state
    }

    /// An owner is about to commit this.
    pub fn begin(&mut self, owner: Owner, state: State) {
        self.events += 1;
        let began = self.events;
        self.lines[owner].versions.push(Version { state, fate: Fate::Open, began, told: u64::MAX });
    }

    /// What became of it; with `Open` it is not known.
    pub fn end(&mut self, owner: Owner, fate: Fate) {
        self.events += 1;
        let line = &mut self.lines[owner];
        let last = line.versions.len() - 1;
        let version = &mut line.versions[last];
        version.fate = fate;
        if fate == Fate::Committed {
            version.told = self.events;
            line.floor = last;
        }
    }

    /// Whether an owner's last transaction has come to a known end.
    pub fn is_settled(&self, owner: Owner) -> bool {
        self.lines[owner].versions.last().is_some_and(|version| version.fate != Fate::Open)
    }

    /// A reader begins.
    pub fn look(&self) -> Window {
        Window { floors: self.lines.iter().map(|line| line.floor).collect(), possible: None }
    }

    /// A reader begins of whom nobody knows which moment of the past it is shown.
    pub fn look_back(&self) -> Window {
        Window { floors: vec![0; self.owners()], possible: None }
    }

    /// The versions of an owner that may still be seen by who began with a floor.
    fn possible(&self, owner: Owner, floor: usize) -> Vec<usize> {
        let line = &self.lines[owner];
        let later = (floor + 1..line.versions.len()).filter(|index| line.versions[*index].fate != Fate::Aborted);
        std::iter::once(floor).chain(later).collect()
    }

    /// A reader has seen something of the owners: `explains` says whether what one has would look like that.
    /// Owner `own` is left out: it sees its own changes.
    ///
    /// # Errors
    /// What no version explains.
    pub fn seen(
        &mut self,
        window: &mut Window,
        own: Option<Owner>,
        explains: impl Fn(Owner, &State) -> bool,
    ) -> Result<(), String> {
        let mut all = Vec::new();
        for owner in 0..self.owners() {
            let before = match &window.possible {
                Some(possible) => possible[owner].clone(),
                None => self.possible(owner, window.floors[owner]),
            };
            let versions = &self.lines[owner].versions;
            let left: Vec<usize> = before
                .iter()
                .copied()
                .filter(|index| own == Some(owner) || explains(owner, &versions[*index].state))
                .collect();
            if left.is_empty() {
                return Err(format!(
                    "what was seen of owner {owner} is that of none of its versions {before:?} (of {})",
                    versions.len() - 1
                ));
            }
            all.push(left);
        }
        self.ordered(&all, own)?;
        window.possible = Some(all);
        Ok(())
    }

    /// What a reader has seen is told: everybody who begins now sees as much. Whether it saw what nobody had been told.
    pub fn told(&mut self, window: &Window) -> bool {
        let mut is_news = false;
        for (line, possible) in self.lines.iter_mut().zip(window.possible.iter().flatten()) {
            is_news |= possible[0] > line.floor;
            line.floor = line.floor.max(possible[0]);
        }
        is_news
    }

    /// Whether there is one point in the order of commits at which these versions were the newest: who sees one that
    /// was begun after another had been told sees that one too.
    fn ordered(&self, possible: &[Vec<usize>], own: Option<Owner>) -> Result<(), String> {
        let mut chosen: Vec<usize> = possible.iter().map(|left| left[0]).collect();
        loop {
            let mut has_changed = false;
            for one in 0..chosen.len() {
                let began = self.lines[one].versions[chosen[one]].began;
                for other in (0..chosen.len()).filter(|other| *other != one && own != Some(*other)) {
                    let told = |version: &Version| version.fate == Fate::Committed && version.told < began;
                    let Some(needed) = self.lines[other].versions.iter().rposition(told) else { continue };
                    if chosen[other] >= needed {
                        continue;
                    }
                    let Some(raised) = possible[other].iter().copied().find(|index| *index >= needed) else {
                        return Err(format!(
                            "version {} of owner {one} was seen, and version {needed} of owner {other} not, \
                             which had been told before that one was begun",
                            chosen[one]
                        ));
                    };
                    chosen[other] = raised;
                    has_changed = true;
                }
            }
            if !has_changed {
                return Ok(());
            }
        }
    }

    /// After a restart, or when nobody else is at work: what was seen is what is, for the owners given.
    pub fn settle(&mut self, window: &Window, owners: impl IntoIterator<Item = Owner>) {
        let Some(possible) = &window.possible else { return };
        for owner in owners {
            let line = &mut self.lines[owner];
            // Versions that look alike are alike.
            let found = *possible[owner].last().expect("never empty");
            for (index, version) in line.versions.iter_mut().enumerate() {
                if version.fate == Fate::Open {
                    version.fate = if index <= found { Fate::Committed } else { Fate::Aborted };
                    version.told = self.events;
                }
            }
            line.floor = line.floor.max(found);
        }
    }

    /// An owner's versions, for messages: those that a window leaves, or all that are possible.
    pub fn describe(&self, owner: Owner, window: &Window) -> String {
        let mut text = String::new();
        for index in self.possible(owner, window.floors[owner]) {
            let version = &self.lines[owner].versions[index];
            text += &format!("  version {index} ({:?}): {:?}\n", version.fate, version.state.shape);
            for ((table, key), row) in &version.state.rows {
                text += &format!("    table {table} key {key}: {row}\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(n: i64) -> State {
        let row = Row { n, tag: String::new(), pad: String::new(), link: None, extras: Vec::new() };
        State { rows: Rows::from([((0, 1), row)]), shape: Shape::default() }
    }

    fn commit(model: &mut Model, owner: Owner, n: i64) {
        model.begin(owner, state(n));
        model.end(owner, Fate::Committed);
    }

    /// Sees these numbers of the owners.
    fn sees(model: &mut Model, window: &mut Window, numbers: [i64; 2]) -> Result<(), String> {
        model.seen(window, None, |owner, found| *found == state(numbers[owner]))
    }

    #[test]
    fn what_was_told_is_seen_and_what_is_under_way_may_be() {
        let mut model = Model::new(2);
        commit(&mut model, 0, 1);
        commit(&mut model, 1, 1);
        let window = model.look();
        model.begin(0, state(2));
        assert!(sees(&mut model, &mut window.clone(), [1, 1]).is_ok());
        assert!(sees(&mut model, &mut window.clone(), [2, 1]).is_ok());
        model.end(0, Fate::Committed);
        let later = model.look();
        assert!(sees(&mut model, &mut window.clone(), [1, 1]).is_ok(), "it began before");
        assert!(sees(&mut model, &mut later.clone(), [1, 1]).is_err());
        model.begin(0, state(3));
        model.end(0, Fate::Aborted);
        assert!(sees(&mut model, &mut window.clone(), [3, 1]).is_err());
    }

    #[test]
    fn what_one_has_seen_nobody_misses_later() {
        let mut model = Model::new(2);
        commit(&mut model, 0, 1);
        commit(&mut model, 1, 1);
        model.begin(0, state(2));
        let mut first = model.look();
        sees(&mut model, &mut first, [2, 1]).unwrap();
        assert!(model.told(&first), "its own client does not know yet");
        assert!(!model.told(&first));
        let mut later = model.look();
        assert!(sees(&mut model, &mut later, [1, 1]).is_err());
    }

    #[test]
    fn a_later_commit_is_not_seen_without_an_earlier_one() {
        let mut model = Model::new(2);
        commit(&mut model, 0, 1);
        commit(&mut model, 1, 1);
        let window = model.look();
        commit(&mut model, 0, 2);
        commit(&mut model, 1, 2);
        assert!(sees(&mut model, &mut window.clone(), [2, 1]).is_ok());
        assert!(sees(&mut model, &mut window.clone(), [1, 2]).is_err());
    }

    #[test]
    fn a_snapshot_stays_one_version() {
        let mut model = Model::new(2);
        commit(&mut model, 0, 1);
        commit(&mut model, 1, 1);
        let mut window = model.look();
        sees(&mut model, &mut window, [1, 1]).unwrap();
        commit(&mut model, 0, 2);
        assert!(sees(&mut model, &mut window, [2, 1]).is_err());
    }
}
