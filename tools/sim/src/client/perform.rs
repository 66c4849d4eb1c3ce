//! Steps, each by its kind.

use std::sync::atomic::Ordering;
use std::time::Duration;

use saki_base::Random;

use super::reading::Look;
use super::shared::{is_taken, shared_alteration};
use super::transaction::{any_level, any_patience, fate_after};
use super::{Client, Refused, Stop, pause};
use crate::change::alter;
use crate::change::{Change, Drawer, Expected};
use crate::model::{Fate, State};
use crate::script::{Kind, Step};
use crate::tables::{ACCOUNTS, Filter};

/// The longest pause, and the longest that a statement is let run that is cancelled, in nanoseconds.
pub(super) const PAUSE_MAX: u64 = 400_000_000;
const CANCEL_MAX: u64 = 3_000_000;

impl Client<'_> {
    pub(super) async fn perform(&self, step: Step) -> Result<(), Stop> {
        let mut random = Random::new(step.seed);
        let random = &mut random;
        match step.kind {
            Kind::Pause => {
                pause(random.below(PAUSE_MAX)).await;
                Ok(())
            }
            Kind::Read => self.read_once(random).await,
            Kind::RepeatableRead => self.read_repeatedly(random).await,
            Kind::Transaction => self.transaction(&[], random).await,
            Kind::Migrate => self.migrate(random).await,
            Kind::Transfer => self.transfer(random).await,
            Kind::ForUpdate => self.transfer_held(false, random).await,
            Kind::SkipLocked => self.transfer_held(true, random).await,
            Kind::LockTable => self.lock_table(random).await,
            Kind::Balances => self.balances(random).await,
            Kind::View => self.view(random).await,
            Kind::Temporary => self.temporary(step.number, random).await,
            Kind::Picture => self.picture().await,
            Kind::Sequence => self.take_number(random).await,
            Kind::Cancel => self.cancel(random).await,
            Kind::Checkpoint => self.utility("CHECKPOINT").await,
            Kind::Analyze => self.utility("ANALYZE").await,
            Kind::Vacuum => self.utility("VACUUM").await,
            Kind::Release => self.release(),
            Kind::CreateIndex | Kind::DropIndex | Kind::AddColumn | Kind::DropColumn | Kind::SharedConstraint => {
                let text = shared_alteration(&self.run.script.focus, step.kind, random);
                self.shared(&text, random).await
            }
            Kind::Concurrently => {
                let kind = [Kind::CreateIndex, Kind::DropIndex][random.below(2) as usize];
                let text = shared_alteration(&self.run.script.focus, kind, random);
                self.alone(&text.replacen("INDEX", "INDEX CONCURRENTLY", 1)).await
            }
            Kind::Reindex => {
                let table = ["wide", "heap", "account", "ledger"][random.below(4) as usize];
                let how = ["", "CONCURRENTLY "][random.below(2) as usize];
                self.alone(&format!("REINDEX TABLE {how}{table}")).await
            }
            Kind::Settings => self.set(random).await,
            kind => self.change(kind, random).await,
        }
    }

    /// Changes what everybody uses, maybe beside others that do the same.
    async fn shared(&self, text: &str, random: &mut Random) -> Result<(), Stop> {
        if random.chance(0.5) {
            return self.shared_in_block(text, random).await;
        }
        self.alone(text).await
    }

    /// The same as a statement by itself.
    async fn alone(&self, text: &str) -> Result<(), Stop> {
        match self.sql(text).await {
            Ok(_) => {
                self.run.station.told(true);
                Ok(())
            }
            Err(error) if is_taken(&error) => Ok(()),
            Err(error) => self.heard(&error),
        }
    }

    /// The same in a transaction, for whose end others wait.
    async fn shared_in_block(&self, text: &str, random: &mut Random) -> Result<(), Stop> {
        let alterations = &self.run.alterations;
        let outcome = async {
            self.sql("BEGIN").await?;
            self.sql(text).await?;
            alterations.fetch_add(1, Ordering::Relaxed);
            // Or at once: while those who changed rows before it are not durable yet.
            if random.chance(0.5) {
                pause(random.below(PAUSE_MAX) / 4).await;
            }
            alterations.fetch_sub(1, Ordering::Relaxed);
            self.sql("COMMIT").await
        };
        let Err(error) = outcome.await else {
            self.run.station.told(true);
            return Ok(());
        };
        if !is_taken(&error) {
            self.heard(&error)?;
        }
        self.utility("ROLLBACK").await
    }

    /// What the database does by itself from time to time: rows leave memory that have been merged.
    fn release(&self) -> Result<(), Stop> {
        match self.database.store().release_merged() {
            Ok(()) => Ok(()),
            Err(error) => self.heard(&error),
        }
    }

    /// A statement that changes no rows.
    pub(super) async fn utility(&self, text: &str) -> Result<(), Stop> {
        match self.sql(text).await {
            Ok(_) => Ok(()),
            Err(error) => self.heard(&error),
        }
    }

    /// A change of a kind.
    pub(super) fn draw(&self, kind: Kind, state: &State, random: &mut Random) -> Change {
        let (tables, focus) = (self.run.tables, &self.run.script.focus);
        let mut drawer = Drawer { tables, focus, owner: self.owner, state, random };
        if alter::KINDS.contains(&kind) || kind == Kind::ColumnType {
            drawer.draw_alteration(kind)
        } else {
            drawer.draw(kind)
        }
    }

    /// A statement that is a transaction by itself.
    async fn change(&self, kind: Kind, random: &mut Random) -> Result<(), Stop> {
        let change = self.draw(kind, &self.state(), random);
        self.announce(&change);
        let outcome = self.apply(&change).await;
        self.conclude(&change, outcome)
    }

    /// It may happen from now on.
    fn announce(&self, change: &Change) {
        if let Expected::Done { after, .. } = &change.expected {
            self.begin(after);
        }
    }

    fn conclude(&self, change: &Change, outcome: Result<State, Refused>) -> Result<(), Stop> {
        match outcome {
            Ok(_) => self.end(Fate::Committed),
            Err(Refused::Expected) => {}
            Err(Refused::Stop(stop)) => return Err(stop),
            Err(Refused::Error(error)) => {
                self.heard(&error)?;
                if matches!(change.expected, Expected::Done { .. }) {
                    self.end(fate_after(error.sqlstate()));
                }
            }
        }
        Ok(())
    }

    /// A statement that is dropped after a moment, wherever it is then.
    async fn cancel(&self, random: &mut Random) -> Result<(), Stop> {
        let kinds = [
            Kind::Insert,
            Kind::UpdateMany,
            Kind::DeleteMany,
            Kind::Copy,
            Kind::InsertSelect,
            Kind::Update,
            Kind::Columns,
            Kind::Rename,
            Kind::Constraints,
            Kind::CreateAs,
            Kind::Truncate,
        ];
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let longest = CANCEL_MAX >> random.below(8);
        let patience = Duration::from_nanos(random.below(longest));
        let change = self.draw(kind, &self.state(), random);
        self.announce(&change);
        match tokio::time::timeout(patience, self.apply(&change)).await {
            Err(_) => {
                self.tell("  cancelled");
                self.session.fail().await;
                Ok(())
            }
            Ok(outcome) => self.conclude(&change, outcome),
        }
    }

    /// Sets how long the session waits for locks.
    async fn set(&self, random: &mut Random) -> Result<(), Stop> {
        let patience = any_patience(random);
        match self.sql(&format!("SET lock_timeout = {patience}")).await {
            Ok(_) => {
                self.patience.set(patience);
                self.show(patience).await
            }
            Err(error) => self.heard(&error),
        }
    }

    /// Whether the session waits for locks for so long.
    pub(super) async fn show(&self, patience: u64) -> Result<(), Stop> {
        let expected = if patience == 0 { "0".to_owned() } else { format!("{patience}ms") };
        match self.sql("SHOW lock_timeout").await {
            Ok(answer) if answer.rows == [[expected.clone()]] => Ok(()),
            Ok(answer) => Err(self.fail(&format!("lock_timeout is {:?}, not {expected}", answer.rows))),
            Err(error) => self.heard(&error),
        }
    }

    /// Chooses the ways that queries take from now on.
    pub(super) async fn choose_path(&self, random: &mut Random) -> Result<(), Stop> {
        let path = self.run.script.focus.path(random);
        self.utility(&format!("SET saki.access_path = '{path}'")).await
    }

    pub(super) fn any_filter(&self, random: &mut Random) -> Filter {
        let state = &State::default();
        let (tables, focus) = (self.run.tables, &self.run.script.focus);
        Drawer { tables, focus, owner: self.owner, state, random }.any_filter()
    }

    async fn read_once(&self, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let table = self.run.any_table(random);
        let filter = &self.any_filter(random);
        let shape = &self.shape_of(table);
        let mut window = self.run.model.lock().look();
        match self.read(Look { table, shape, filter }, &mut window, None).await {
            Ok(()) | Err(Refused::Expected) => Ok(()),
            Err(Refused::Stop(stop)) => Err(stop),
            Err(Refused::Error(error)) => self.heard(&error),
        }
    }

    /// Looks at balances and ledger in one snapshot.
    async fn balances(&self, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let told = self.run.bank.lock().look();
        let outcome = async {
            self.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
            let balances = self.sql("SELECT id, balance FROM account").await?;
            pause(random.below(PAUSE_MAX) / 20).await;
            let ledger = self.sql("SELECT id, src, dst, amount, line FROM ledger").await?;
            self.sql("COMMIT").await?;
            Ok((balances, ledger))
        };
        match outcome.await {
            Ok((balances, ledger)) => {
                let seen = self.run.bank.lock().seen(&told, &numbers(&balances.rows), &numbers(&ledger.rows));
                seen.map_err(|what| self.fail(&what))?;
                self.run.station.told(false);
                Ok(())
            }
            Err(error) => {
                self.heard(&error)?;
                self.utility("ROLLBACK").await
            }
        }
    }

    /// Moves money, beside others that move the same.
    async fn transfer(&self, random: &mut Random) -> Result<(), Stop> {
        let from = random.below(ACCOUNTS as u64) as i64;
        let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let amount = 1 + random.below(9) as i64;
        let id = self.run.bank.lock().begin(from, to, amount);
        let mut statements = vec![
            format!("UPDATE account SET balance = balance - {amount} WHERE id = {from}"),
            format!("UPDATE account SET balance = balance + {amount} WHERE id = {to}"),
            format!("INSERT INTO ledger (id, src, dst, amount) VALUES ({id}, {from}, {to}, {amount})"),
        ];
        random.shuffle(&mut statements);
        if let Err(error) = self.sql(&format!("BEGIN ISOLATION LEVEL {}", any_level(random))).await {
            self.run.bank.lock().end(id, Fate::Aborted);
            return self.heard(&error);
        }
        self.carry_out(id, &statements, random).await
    }

    /// The statements of a transfer, and the end of its transaction.
    pub(super) async fn carry_out(&self, id: i64, statements: &[String], random: &mut Random) -> Result<(), Stop> {
        let outcome = async {
            for statement in statements {
                self.sql(statement).await?;
                if random.chance(0.3) {
                    pause(random.below(PAUSE_MAX) / 20).await;
                }
            }
            Ok(())
        };
        let outcome = outcome.await;
        if let Err(error) = outcome {
            self.run.bank.lock().end(id, Fate::Aborted);
            self.heard(&error)?;
            return self.utility("ROLLBACK").await;
        }
        if random.chance(0.1) {
            self.run.bank.lock().end(id, Fate::Aborted);
            return self.utility("ROLLBACK").await;
        }
        match self.sql("COMMIT").await {
            Ok(_) => {
                self.run.bank.lock().end(id, Fate::Committed);
                self.run.station.told(false);
            }
            Err(error) => {
                self.heard(&error)?;
                self.run.bank.lock().end(id, fate_after(error.sqlstate()));
            }
        }
        Ok(())
    }
}

pub fn numbers(rows: &[Vec<String>]) -> Vec<Vec<i64>> {
    rows.iter().map(|row| row.iter().map(|cell| cell.parse().unwrap_or(i64::MIN)).collect()).collect()
}
