//! What clients see of each other's transactions, at each level: random transactions on a few lists, at once, through
//! the protocol, beside somebody who alters what the lists lie in and cancels statements; and a checker that knows what
//! none of them may see.
//!
//! `SAKI_HISTORIES` says how many of each level, `SAKI_SEED` from which seed on.

mod checker;
mod disturber;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, Row};

use self::checker::{Anomaly, Element, Event, Key, Lists, Transaction, check};
use self::disturber::Disturber;
use crate::server::TestServer;

const CLIENTS: u32 = 4;
/// Of one history; the next has others.
const KEYS: Key = 3;
/// Of a client in a history.
const TRANSACTIONS: usize = 3;
/// How often one is tried at most.
const TRIES: usize = 200;
/// The condition (SQLSTATE) of a statement that was cancelled.
const CANCELLED: &str = "57014";

const APPEND: &str =
    "INSERT INTO lists VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET list = lists.list || excluded.list";
const READ_ONE: &str = "SELECT key, list FROM lists WHERE key = $1";
const READ_SOME: &str = "SELECT key, list FROM lists WHERE key BETWEEN $1 AND $2";

/// A transaction that a client tried.
#[derive(Debug)]
struct Tried {
    events: Vec<Event>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Committed,
    Refused,
    /// Its COMMIT was cancelled, before or after it happened.
    Unknown,
}

impl Tried {
    /// As what it counts where the lists were `last` in the end: if one thing that it appended is there, it happened,
    /// and all of it has to be there. What only read may have happened or not.
    fn settled(self, last: &Lists) -> Transaction {
        let is_there = |event: &Event| match event {
            Event::Append(key, element) => last.get(key).is_some_and(|list| list.contains(element)),
            Event::Read(_) => false,
        };
        let is_committed = match self.outcome {
            Outcome::Committed => true,
            Outcome::Refused => false,
            Outcome::Unknown => self.events.iter().any(is_there),
        };
        Transaction { events: self.events, is_committed }
    }
}

/// One client's part of a history.
struct Part<'c> {
    client: &'c Client,
    level: &'static str,
    first_key: Key,
    random: StdRng,
    next_element: Element,
}

impl Part<'_> {
    /// Its transactions, those that were refused as well.
    async fn run(mut self) -> Vec<Tried> {
        let mut history = Vec::new();
        for _ in 0..TRANSACTIONS {
            let most = history.len() + TRIES;
            loop {
                assert!(history.len() < most, "a transaction is refused for ever");
                let tried = self.transaction().await;
                let is_refused = tried.outcome == Outcome::Refused;
                history.push(tried);
                if !is_refused {
                    break;
                }
            }
        }
        history
    }

    async fn transaction(&mut self) -> Tried {
        let mut events = Vec::new();
        let outcome = match self.attempt(&mut events).await {
            Err(error) => {
                self.refused(&error).await;
                Outcome::Refused
            }
            Ok(()) => match self.client.batch_execute("COMMIT").await {
                Ok(()) => Outcome::Committed,
                Err(error) => {
                    self.refused(&error).await;
                    if is(&error, CANCELLED) { Outcome::Unknown } else { Outcome::Refused }
                }
            },
        };
        Tried { events, outcome }
    }

    /// Ends a transaction whose statement was refused for a reason that there may be.
    async fn refused(&self, error: &Error) {
        assert!(["40001", "40P01", CANCELLED].iter().any(|code| is(error, code)), "{error:?}");
        for _ in 0..TRIES {
            match self.client.batch_execute("ROLLBACK").await {
                Ok(()) => return,
                Err(error) => assert!(is(&error, CANCELLED), "{error:?}"),
            }
        }
        panic!("a transaction cannot be rolled back");
    }

    async fn attempt(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.client.batch_execute(&format!("BEGIN ISOLATION LEVEL {}", self.level)).await?;
        for _ in 0..self.random.random_range(1..5) {
            let key = self.key();
            let event = match self.random.random_range(0..4) {
                0 => Event::Read(lists(key..=key, &self.client.query(READ_ONE, &[&key]).await?)),
                1 => {
                    let (low, high) = (self.first_key, self.first_key + KEYS - 1);
                    Event::Read(lists(low..=high, &self.client.query(READ_SOME, &[&low, &high]).await?))
                }
                _ => {
                    self.next_element += 1;
                    // Noted before it is tried: what fails must not be seen either.
                    events.push(Event::Append(key, self.next_element));
                    self.client.execute(APPEND, &[&key, &format!(",{}", self.next_element)]).await?;
                    continue;
                }
            };
            events.push(event);
        }
        Ok(())
    }

    fn key(&mut self) -> Key {
        self.first_key + self.random.random_range(0..KEYS)
    }
}

fn is(error: &Error, code: &str) -> bool {
    error.code().is_some_and(|found| found.code() == code)
}

fn lists(asked: impl Iterator<Item = Key>, rows: &[Row]) -> Lists {
    let mut lists: Lists = asked.map(|key| (key, Vec::new())).collect();
    for row in rows {
        let elements = row.get::<_, &str>("list").split(',').skip(1).map(|element| element.parse().unwrap());
        lists.insert(row.get("key"), elements.collect());
    }
    lists
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// All anomalies of many histories; fails at the first that has a forbidden one.
async fn anomalies(level: &'static str, allowed: &[Anomaly]) -> BTreeSet<Anomaly> {
    let server = TestServer::start();
    // Whoever disturbs is not disturbed, and looks at the lists in the end.
    let (clients, other) = join(join_all((0..CLIENTS).map(|_| server.client())), server.client()).await;
    other.batch_execute("CREATE TABLE lists (key int PRIMARY KEY, list text NOT NULL)").await.unwrap();
    let mut disturber = Disturber::new(&other, &clients).await;
    let mut all = BTreeSet::new();
    let first_seed = number("SAKI_SEED", 1);
    for seed in first_seed..first_seed + number("SAKI_HISTORIES", 40) {
        let first_key = Key::try_from(seed - first_seed).unwrap() * KEYS;
        let parts = clients.iter().zip(0_u32..).map(|(client, number)| {
            let random = StdRng::seed_from_u64(seed * u64::from(CLIENTS) + u64::from(number));
            Part { client, level, first_key, random, next_element: number << 16 }.run()
        });
        let is_over = Cell::new(false);
        let working = async {
            let history = join_all(parts).await;
            is_over.set(true);
            history
        };
        let (history, ()) = join(working, disturber.disturb(seed, &is_over)).await;
        let (low, high) = (first_key, first_key + KEYS - 1);
        let last = lists(low..=high, &other.query(READ_SOME, &[&low, &high]).await.unwrap());
        let history: Vec<Transaction> = history.into_iter().flatten().map(|tried| tried.settled(&last)).collect();
        let found = check(&history, &last);
        let is_allowed = found.iter().all(|anomaly| allowed.contains(anomaly));
        assert!(is_allowed, "SAKI_SEED={seed} {level}: {found:?} in {history:#?}, after which there was {last:?}");
        all.extend(found);
        // What comes next has a base of its own beneath it, every other time.
        if seed % 2 == 0 {
            other.batch_execute("CHECKPOINT").await.unwrap();
        }
    }
    server.stop(Duration::from_millis(100)).await;
    all
}

#[tokio::test]
async fn serializable_clients_see_no_anomaly() {
    assert_eq!(anomalies("SERIALIZABLE", &[]).await, BTreeSet::new());
}

#[tokio::test]
async fn repeatable_reads_have_write_skew_and_nothing_worse() {
    assert_eq!(anomalies("REPEATABLE READ", &[Anomaly::G2]).await, BTreeSet::from([Anomaly::G2]));
}

#[tokio::test]
async fn committed_reads_are_of_committed_transactions() {
    let found = anomalies("READ COMMITTED", &[Anomaly::GSingle, Anomaly::G2]).await;
    assert!(found.contains(&Anomaly::GSingle), "transactions did not meet: {found:?}");
}

#[test]
fn a_commit_that_was_cancelled_counts_by_what_is_there() {
    let tried = |outcome| Tried { events: vec![Event::Append(1, 7), Event::Append(2, 8)], outcome };
    let last = Lists::from([(1, vec![3]), (2, vec![8])]);
    assert!(tried(Outcome::Unknown).settled(&last).is_committed, "a part of it is there");
    assert!(!tried(Outcome::Unknown).settled(&Lists::new()).is_committed);
    assert!(!tried(Outcome::Refused).settled(&last).is_committed);
    assert!(tried(Outcome::Committed).settled(&Lists::new()).is_committed);
}
