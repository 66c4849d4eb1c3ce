//! Transactions of several statements, at every isolation level, with savepoints.

use std::sync::atomic::Ordering;

use saki_base::Random;

use super::reading::Look;
use super::shared::{SHARED, is_taken, shared_alteration};
use super::{Client, Refused, Stop, pause};
use crate::change::alter;
use crate::model::{Fate, State, TableNumber, Window};
use crate::script::Kind;
use crate::tables::Filter;

/// Statements of a transaction, at most.
const STATEMENTS_MAX: u64 = 6;
/// The longest pause between two of them, in nanoseconds.
const PAUSE_MAX: u64 = 30_000_000;
/// How often it pauses for another one's alteration, at most.
const PAUSES_MAX: usize = 6;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

pub fn any_level(random: &mut Random) -> &'static str {
    LEVELS[random.below(LEVELS.len() as u64) as usize]
}

/// A `lock_timeout`, in milliseconds; 0: none.
pub fn any_patience(random: &mut Random) -> u64 {
    [0, 0, 20, 500][random.below(4) as usize]
}

/// What became of a transaction whose end was refused with this.
pub fn fate_after(code: &str) -> Fate {
    match code {
        // The statement did nothing, and says so.
        "40001" | "40P01" | "55P03" | "55006" | "25001" => Fate::Aborted,
        _ => Fate::Open,
    }
}

/// A transaction that is open.
struct Open<'c> {
    client: &'c Client<'c>,
    now: Inside,
    /// Where it goes back to, if it does.
    savepoint: Option<Inside>,
    /// What it has seen of the others, if it sees one snapshot.
    generation: Option<Window>,
    /// Of ten statements so many alter tables.
    alterations: u64,
}

/// What is so inside of a transaction.
#[derive(Clone)]
struct Inside {
    /// What its owner has.
    state: State,
    /// `lock_timeout`, and what it will be after COMMIT.
    patience: u64,
    lasting_patience: u64,
}

impl<'c> Open<'c> {
    fn new(client: &'c Client<'c>, generation: Option<Window>, alterations: u64) -> Self {
        let patience = client.patience.get();
        let now = Inside { state: client.state(), patience, lasting_patience: patience };
        Self { client, now, savepoint: None, generation, alterations }
    }
}

impl Client<'_> {
    /// A transaction that alters what its owner's table is, and changes rows of everybody's.
    pub(super) async fn migrate(&self, random: &mut Random) -> Result<(), Stop> {
        let alterations =
            [Kind::Columns, Kind::Columns, Kind::Rename, Kind::CreateAs, Kind::Truncate, Kind::Constraints];
        let alteration = alterations[random.below(alterations.len() as u64) as usize];
        let change = [Kind::Insert, Kind::Update, Kind::UpdateMany][random.below(3) as usize];
        let mut first = [alteration, change];
        random.shuffle(&mut first);
        self.transaction(&first, random).await
    }

    /// `first`: kinds of changes that it begins with.
    pub(super) async fn transaction(&self, first: &[Kind], random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let level = any_level(random);
        if let Err(error) = self.sql(&format!("BEGIN ISOLATION LEVEL {level}")).await {
            return self.heard(&error);
        }
        let generation = (level != "READ COMMITTED").then(|| self.run.model.lock().look());
        let mut open = Open::new(self, generation, [0, 1, 5][random.below(3) as usize]);
        let looks_first = first.is_empty() && open.generation.is_some() && random.chance(0.4);
        for number in 0..first.len() + 1 + random.below(STATEMENTS_MAX) as usize {
            let outcome = match first.get(number) {
                Some(kind) => open.change(*kind, random).await,
                None if looks_first && number == 0 => open.look_first(random).await,
                None => open.statement(random).await,
            };
            match outcome {
                Ok(()) => continue,
                Err(Refused::Stop(stop)) => return Err(stop),
                Err(Refused::Expected) => {}
                Err(Refused::Error(error)) => self.heard(&error)?,
            }
            if !open.goes_back(random).await? {
                return self.roll_back().await;
            }
        }
        if random.chance(0.15) {
            self.roll_back().await?;
            return self.show(self.patience.get()).await;
        }
        let Inside { state, lasting_patience, .. } = open.now;
        self.begin(&state);
        match self.sql("COMMIT").await {
            Ok(_) => {
                self.end(Fate::Committed);
                if lasting_patience != self.patience.replace(lasting_patience) || random.chance(0.1) {
                    self.show(lasting_patience).await?;
                }
            }
            Err(error) => {
                self.heard(&error)?;
                self.end(fate_after(error.sqlstate()));
            }
        }
        Ok(())
    }

    async fn roll_back(&self) -> Result<(), Stop> {
        match self.sql("ROLLBACK").await {
            Ok(_) => Ok(()),
            Err(error) => self.heard(&error),
        }
    }

    /// Several reads of one snapshot.
    pub(super) async fn read_repeatedly(&self, random: &mut Random) -> Result<(), Stop> {
        let level = LEVELS[1 + random.below(2) as usize];
        if let Err(error) = self.sql(&format!("BEGIN ISOLATION LEVEL {level} READ ONLY")).await {
            return self.heard(&error);
        }
        let generation = self.run.model.lock().look();
        let mut open = Open::new(self, Some(generation), 0);
        // What somebody has changed at once it sees at once.
        let mut wholes = if random.chance(0.5) { self.run.script.focus.all(random) } else { Vec::new() };
        for _ in 0..2 + random.below(4) {
            self.choose_path(random).await?;
            let read = match wholes.pop() {
                Some(table) => open.read_table(table, &Filter::All).await,
                None => open.read(random).await,
            };
            match read {
                Ok(()) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
                Err(Refused::Expected) => return self.roll_back().await,
                Err(Refused::Error(error)) => {
                    self.heard(&error)?;
                    return self.roll_back().await;
                }
            }
            pause(random.below(PAUSE_MAX)).await;
        }
        match self.sql("COMMIT").await {
            Ok(_) => Ok(()),
            Err(error) => self.heard(&error),
        }
    }
}

impl Open<'_> {
    async fn statement(&mut self, random: &mut Random) -> Result<(), Refused> {
        if random.below(10) < self.alterations {
            if random.chance(0.3) {
                return self.alter_shared(random).await;
            }
            let kind = alter::KINDS[random.below(alter::KINDS.len() as u64) as usize];
            return self.change(kind, random).await;
        }
        match random.below(20) {
            0 => self.change(Kind::InsertSelect, random).await,
            1..=9 => self.change(Kind::Transaction, random).await,
            10..=14 => self.read(random).await,
            15..=17 => self.savepoint(random).await,
            18 => self.set(random).await,
            _ => {
                pause(random.below(PAUSE_MAX)).await;
                Ok(())
            }
        }
    }

    /// Alters what everybody uses, who then waits for the end of the transaction.
    async fn alter_shared(&self, random: &mut Random) -> Result<(), Refused> {
        let kind = SHARED[random.below(SHARED.len() as u64) as usize];
        match self.client.sql(&shared_alteration(&self.client.run.script.focus, kind, random)).await {
            Ok(_) => Ok(()),
            Err(error) if is_taken(&error) => Err(Refused::Expected),
            Err(error) => Err(Refused::Error(error)),
        }
    }

    async fn change(&mut self, kind: Kind, random: &mut Random) -> Result<(), Refused> {
        let change = self.client.draw(kind, &self.now.state, random);
        self.now.state = self.client.apply(&change).await?;
        Ok(())
    }

    /// Its snapshot is settled by a look at what is its own; then it changes rows, if it can while somebody is altering
    /// what they lie in.
    async fn look_first(&mut self, random: &mut Random) -> Result<(), Refused> {
        let own = self.client.run.tables.own(self.client.owner);
        self.read_table(own, &self.client.any_filter(random)).await?;
        for _ in 0..PAUSES_MAX {
            pause(random.below(PAUSE_MAX)).await;
            if self.client.run.alterations.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        self.change(Kind::Insert, random).await
    }

    async fn read(&mut self, random: &mut Random) -> Result<(), Refused> {
        let table = self.client.run.any_table(random);
        self.read_table(table, &self.client.any_filter(random)).await
    }

    async fn read_table(&mut self, table: TableNumber, filter: &Filter) -> Result<(), Refused> {
        let tables = self.client.run.tables;
        let is_own = tables.owner_of(table) == Some(self.client.owner);
        let shape = if is_own { self.now.state.shape.clone() } else { self.client.shape_of(table) };
        let look = Look { table, shape: &shape, filter };
        match &mut self.generation {
            Some(window) => self.client.read(look, window, Some(&self.now.state)).await,
            None => {
                let mut window = self.client.run.model.lock().look();
                self.client.read(look, &mut window, Some(&self.now.state)).await
            }
        }
    }

    async fn sql(&self, text: &str) -> Result<(), Refused> {
        self.client.sql(text).await.map(drop).map_err(Refused::Error)
    }

    /// Sets how long it waits for locks, for itself or for what comes after it too.
    async fn set(&mut self, random: &mut Random) -> Result<(), Refused> {
        let (patience, is_local) = (any_patience(random), random.chance(0.6));
        self.sql(&format!("SET {}lock_timeout = {patience}", if is_local { "LOCAL " } else { "" })).await?;
        self.now.patience = patience;
        if !is_local {
            self.now.lasting_patience = patience;
        }
        Ok(())
    }

    /// Sets one, releases it or goes back to it.
    async fn savepoint(&mut self, random: &mut Random) -> Result<(), Refused> {
        match &self.savepoint {
            None => {
                self.sql("SAVEPOINT one").await?;
                self.savepoint = Some(self.now.clone());
            }
            Some(_) if random.chance(0.3) => {
                self.sql("RELEASE one").await?;
                self.savepoint = None;
            }
            Some(then) => {
                let then = then.clone();
                self.sql("ROLLBACK TO one").await?;
                self.now = then;
                self.client.show(self.now.patience).await?;
            }
        }
        Ok(())
    }

    /// After an error: back to its savepoint, if there is one and it feels like it.
    async fn goes_back(&mut self, random: &mut Random) -> Result<bool, Stop> {
        let Some(then) = self.savepoint.clone().filter(|_| random.chance(0.5)) else { return Ok(false) };
        match self.client.sql("ROLLBACK TO one").await {
            Ok(_) => {
                self.now = then;
                Ok(true)
            }
            Err(error) => self.client.heard(&error).map(|()| false),
        }
    }
}
