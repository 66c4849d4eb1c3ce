//! Transactions of several statements, at every isolation level, with savepoints.

use saki_base::Random;

use super::{Client, Refused, Stop, pause};
use crate::change::Drawer;
use crate::model::{Fate, Rows, Window};
use crate::script::Kind;

/// Statements of a transaction, at most.
const STATEMENTS_MAX: u64 = 6;
/// The longest pause between two of them, in nanoseconds.
const PAUSE_MAX: u64 = 30_000_000;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

pub fn any_level(random: &mut Random) -> &'static str {
    LEVELS[random.below(LEVELS.len() as u64) as usize]
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
    /// The owner's rows as the transaction sees them.
    rows: Rows,
    /// Where it goes back to, if it does.
    savepoint: Option<Rows>,
    /// What it has seen of the others, if it sees one snapshot.
    generation: Option<Window>,
}

impl Client<'_> {
    pub(super) async fn transaction(&self, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let level = any_level(random);
        if let Err(error) = self.sql(&format!("BEGIN ISOLATION LEVEL {level}")).await {
            return self.heard(&error);
        }
        let generation = (level != "READ COMMITTED").then(|| self.run.model.lock().look());
        let mut open = Open { client: self, rows: self.rows(), savepoint: None, generation };
        for _ in 0..1 + random.below(STATEMENTS_MAX) {
            match open.statement(random).await {
                Ok(()) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
                Err(Refused::Error(error)) => {
                    self.heard(&error)?;
                    if !open.goes_back(random).await? {
                        return self.roll_back().await;
                    }
                }
            }
        }
        if random.chance(0.15) {
            return self.roll_back().await;
        }
        let rows = open.rows;
        self.begin(&rows);
        match self.sql("COMMIT").await {
            Ok(_) => self.end(Fate::Committed),
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
        let generation = Some(self.run.model.lock().look());
        let mut open = Open { client: self, rows: self.rows(), savepoint: None, generation };
        for _ in 0..2 + random.below(4) {
            self.choose_path(random).await?;
            match open.read(random).await {
                Ok(()) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
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
        match random.below(10) {
            0..=4 => self.change(random).await,
            5..=7 => self.read(random).await,
            8 => self.savepoint(random).await,
            _ => {
                pause(random.below(PAUSE_MAX)).await;
                Ok(())
            }
        }
    }

    async fn change(&mut self, random: &mut Random) -> Result<(), Refused> {
        let (tables, owner) = (self.client.run.tables, self.client.owner);
        let kind = if random.chance(0.1) { Kind::InsertSelect } else { Kind::Transaction };
        let change = Drawer { tables, owner, random }.draw(kind, &self.rows);
        self.client.apply(&change).await?;
        self.rows = change.after;
        Ok(())
    }

    async fn read(&mut self, random: &mut Random) -> Result<(), Refused> {
        let (tables, owner) = (self.client.run.tables, self.client.owner);
        let table = random.below(tables.all().count() as u64) as usize;
        let filter = Drawer { tables, owner, random }.any_filter();
        match &mut self.generation {
            Some(window) => self.client.read(table, &filter, window, Some(&self.rows)).await,
            None => {
                let mut window = self.client.run.model.lock().look();
                self.client.read(table, &filter, &mut window, Some(&self.rows)).await
            }
        }
    }

    /// Sets one, releases it or goes back to it.
    async fn savepoint(&mut self, random: &mut Random) -> Result<(), Refused> {
        let sql = |text: &'static str| async { self.client.sql(text).await.map_err(Refused::Error) };
        match &self.savepoint {
            None => {
                sql("SAVEPOINT one").await?;
                self.savepoint = Some(self.rows.clone());
            }
            Some(_) if random.chance(0.3) => {
                sql("RELEASE one").await?;
                self.savepoint = None;
            }
            Some(rows) => {
                let rows = rows.clone();
                sql("ROLLBACK TO one").await?;
                self.rows = rows;
            }
        }
        Ok(())
    }

    /// After an error: back to its savepoint, if there is one and it feels like it.
    async fn goes_back(&mut self, random: &mut Random) -> Result<bool, Stop> {
        let Some(rows) = self.savepoint.clone().filter(|_| random.chance(0.5)) else { return Ok(false) };
        match self.client.sql("ROLLBACK TO one").await {
            Ok(_) => {
                self.rows = rows;
                Ok(true)
            }
            Err(error) => self.client.heard(&error).map(|()| false),
        }
    }
}
