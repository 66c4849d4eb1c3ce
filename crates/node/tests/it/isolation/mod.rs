//! What clients see of each other's transactions, at each level: random transactions on a few lists, at once, through
//! the protocol, and a checker that knows what none of them may see.
//!
//! `SAKI_HISTORIES` says how many of each level, `SAKI_SEED` from which seed on.

mod checker;

use std::collections::BTreeSet;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, Row};

use self::checker::{Anomaly, Element, Event, Key, Lists, Transaction, check};
use crate::server::TestServer;

const CLIENTS: u32 = 4;
/// Of one history; the next has others.
const KEYS: Key = 3;
/// Of a client in a history.
const TRANSACTIONS: usize = 3;
/// How often one is tried at most.
const TRIES: usize = 200;

const APPEND: &str =
    "INSERT INTO lists VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET list = lists.list || excluded.list";
const READ_ONE: &str = "SELECT key, list FROM lists WHERE key = $1";
const READ_SOME: &str = "SELECT key, list FROM lists WHERE key BETWEEN $1 AND $2";

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
    async fn run(mut self) -> Vec<Transaction> {
        let mut history = Vec::new();
        for _ in 0..TRANSACTIONS {
            let tried = history.len();
            while history.last().is_none_or(|last: &Transaction| !last.is_committed) || history.len() == tried {
                assert!(history.len() < tried + TRIES, "a transaction is refused for ever");
                history.push(self.transaction().await);
            }
        }
        history
    }

    async fn transaction(&mut self) -> Transaction {
        let mut events = Vec::new();
        let outcome = self.attempt(&mut events).await;
        if let Err(error) = &outcome {
            let code = error.code().unwrap_or_else(|| panic!("{error}")).code();
            assert!(["40001", "40P01"].contains(&code), "{error:?}");
            self.client.batch_execute("ROLLBACK").await.unwrap();
        }
        Transaction { events, is_committed: outcome.is_ok() }
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
        self.client.batch_execute("COMMIT").await
    }

    fn key(&mut self) -> Key {
        self.first_key + self.random.random_range(0..KEYS)
    }
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
    let clients = join_all((0..CLIENTS).map(|_| server.client())).await;
    clients[0].batch_execute("CREATE TABLE lists (key int PRIMARY KEY, list text NOT NULL)").await.unwrap();
    let mut all = BTreeSet::new();
    let first_seed = number("SAKI_SEED", 1);
    for seed in first_seed..first_seed + number("SAKI_HISTORIES", 40) {
        let first_key = Key::try_from(seed - first_seed).unwrap() * KEYS;
        let parts = clients.iter().zip(0_u32..).map(|(client, number)| {
            let random = StdRng::seed_from_u64(seed * u64::from(CLIENTS) + u64::from(number));
            Part { client, level, first_key, random, next_element: number << 16 }.run()
        });
        let history = join_all(parts).await.concat();
        let (low, high) = (first_key, first_key + KEYS - 1);
        let last = lists(low..=high, &clients[0].query(READ_SOME, &[&low, &high]).await.unwrap());
        let found = check(&history, &last);
        let is_allowed = found.iter().all(|anomaly| allowed.contains(anomaly));
        assert!(is_allowed, "SAKI_SEED={seed} {level}: {found:?} in {history:#?}, after which there was {last:?}");
        all.extend(found);
        // What comes next has a base of its own beneath it, every other time.
        if seed % 2 == 0 {
            clients[0].batch_execute("CHECKPOINT").await.unwrap();
        }
    }
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
