//! Rows and tables that are held, so that nobody else changes them.

use saki_base::Random;

use super::perform::{PAUSE_MAX, numbers};
use super::reading::Look;
use super::transaction::any_level;
use super::{Client, Refused, Stop, pause};
use crate::model::shape::Shape;
use crate::tables::{ACCOUNTS, HEAP, WIDE};

/// Modes in which nobody else changes rows.
const MODES: [&str; 4] = ["SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"];

impl Client<'_> {
    /// Moves money between two accounts that it holds: what they have then follows from what it has read. `skips`: any
    /// two that nobody else holds.
    pub(super) async fn transfer_held(&self, skips: bool, random: &mut Random) -> Result<(), Stop> {
        let one = random.below(ACCOUNTS as u64) as i64;
        let other = (one + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let order = ["", " DESC"][random.below(2) as usize];
        let query = match skips {
            true => format!("SELECT id, balance FROM account ORDER BY id{order} LIMIT 2 FOR UPDATE SKIP LOCKED"),
            false => {
                format!("SELECT id, balance FROM account WHERE id IN ({one}, {other}) ORDER BY id{order} FOR UPDATE")
            }
        };
        let held = async {
            self.sql(&format!("BEGIN ISOLATION LEVEL {}", any_level(random))).await?;
            self.sql(&query).await
        };
        let held = match held.await {
            Ok(answer) => numbers(&answer.rows),
            Err(error) => {
                self.heard(&error)?;
                return self.utility("ROLLBACK").await;
            }
        };
        let [[from, has], [to, gets]] = &held.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] else {
            return match skips && held.len() < 2 {
                true => self.utility("ROLLBACK").await,
                false => Err(self.fail(&format!("{query}: it holds {held:?}"))),
            };
        };
        pause(random.below(PAUSE_MAX) / 20).await;
        let amount = 1 + random.below(9) as i64;
        let id = self.run.bank.lock().begin(*from, *to, amount);
        let mut statements = vec![
            format!("UPDATE account SET balance = {} WHERE id = {from}", has - amount),
            format!("UPDATE account SET balance = {} WHERE id = {to}", gets + amount),
            format!("INSERT INTO ledger (id, src, dst, amount) VALUES ({id}, {from}, {to}, {amount})"),
        ];
        random.shuffle(&mut statements);
        self.carry_out(id, &statements, random).await
    }

    /// Reads a table again and again that it has locked: whatever it sees at first, it sees in the end.
    pub(super) async fn lock_table(&self, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let (table, shape) = ([WIDE, HEAP][random.below(2) as usize], &Shape::default());
        let (name, mode) = (self.run.tables.name(table, shape), MODES[random.below(MODES.len() as u64) as usize]);
        let wait = if random.chance(0.3) { " NOWAIT" } else { "" };
        let locked = async {
            self.sql("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            self.sql(&format!("LOCK TABLE {name} IN {mode} MODE{wait}")).await
        };
        if let Err(error) = locked.await {
            self.heard(&error)?;
            return self.utility("ROLLBACK").await;
        }
        let mut window = self.run.model.lock().look();
        for _ in 0..2 + random.below(2) {
            let filter = &self.any_filter(random);
            match self.read(Look { table, shape, filter }, &mut window, None).await {
                Ok(()) | Err(Refused::Expected) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
                Err(Refused::Error(error)) => {
                    self.heard(&error)?;
                    return self.utility("ROLLBACK").await;
                }
            }
            pause(random.below(PAUSE_MAX) / 20).await;
        }
        self.utility("COMMIT").await
    }
}
