//! A small database to test with.

use std::path::Path;

use saki_base::{Column, DataType, Random, ValueRef};
use saki_mvcc::{
    Database, Error, IndexDefinition, Isolation, Options, RowId, Runner, Table, TableDefinition, Transaction,
};

/// A table of accounts: id, owner (indexed), email (unique, may be NULL), balance.
pub fn accounts() -> TableDefinition {
    let column = |name: &str, data_type, nullable| Column { name: name.into(), data_type, nullable };
    TableDefinition {
        name: "accounts".into(),
        columns: vec![
            column("id", DataType::Int8, false),
            column("owner", DataType::Text, false),
            column("email", DataType::Text, true),
            column("balance", DataType::Int8, false),
        ],
        primary_key: vec![0],
        indexes: vec![
            IndexDefinition { name: "by_owner".into(), columns: vec![1], unique: false, ..Default::default() },
            IndexDefinition { name: "by_email".into(), columns: vec![2], unique: true, ..Default::default() },
        ],
        ..Default::default()
    }
}

/// Options that take little.
pub fn options() -> Options {
    let mut options = Options { participants_max: 16, ..Options::default() };
    options.log.extent_bytes = 1 << 20;
    options
}

pub fn open(directory: &Path) -> Database {
    Database::open(directory, options(), &|_| {}).expect("a database that opens")
}

/// A database with an empty table of accounts.
pub fn with_accounts(directory: &Path) -> (Database, Table) {
    let database = open(directory);
    let table = database.create_table(accounts()).expect("a table");
    (database, table)
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Account {
    pub id: i64,
    pub owner: String,
    pub email: Option<String>,
    pub balance: i64,
}

pub fn account(id: i64, owner: &str, balance: i64) -> Account {
    Account { id, owner: owner.into(), email: None, balance }
}

impl Account {
    pub fn encode(&self, table: &Table) -> (Vec<u8>, Vec<u8>) {
        let email = self.email.as_deref().map_or(ValueRef::Null, ValueRef::Text);
        let values = [ValueRef::Int8(self.id), ValueRef::Text(&self.owner), email, ValueRef::Int8(self.balance)];
        let (mut key, mut body) = (Vec::new(), Vec::new());
        table.encode(&values, &mut key, &mut body).expect("values of the table");
        (key, body)
    }

    pub fn decode(table: &Table, key: &[u8], body: &[u8]) -> Self {
        use saki_base::Value;
        let values = table.decode(key, body).expect("a row of the table");
        match <[Value; 4]>::try_from(values).expect("four columns") {
            [Value::Int8(id), Value::Text(owner), email, Value::Int8(balance)] => {
                let email = match email {
                    Value::Text(email) => Some(email),
                    _ => None,
                };
                Self { id, owner, email, balance }
            }
            values => panic!("{values:?}"),
        }
    }
}

pub fn key(table: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    table.key_layout().encode(&[ValueRef::Int8(id)], &mut key).expect("a key");
    key
}

pub fn insert(transaction: &mut Transaction<'_>, table: &Table, account: &Account) -> Result<RowId, Error> {
    let (key, body) = account.encode(table);
    transaction.insert(table, &key, &body)
}

pub fn get(transaction: &Transaction<'_>, table: &Table, id: i64) -> Option<Account> {
    let found = transaction.get(table, &key(table, id))?;
    Some(Account::decode(table, found.key, found.body))
}

pub fn update(transaction: &mut Transaction<'_>, table: &Table, account: &Account) -> Result<(), Error> {
    let (key, body) = account.encode(table);
    let id = transaction.get(table, &key).expect("the row is there").id;
    transaction.update(table, id, &body)
}

pub fn delete(transaction: &mut Transaction<'_>, table: &Table, id: i64) -> Result<(), Error> {
    let id = transaction.get(table, &key(table, id)).expect("the row is there").id;
    transaction.delete(table, id)
}

/// Changes an account in a transaction of its own, unless somebody else has it; one of ten changes is taken back.
pub fn change_or_abort(runner: &mut Runner, table: &Table, account: &Account, random: &mut Random) {
    let mut transaction = runner.begin(Isolation::Snapshot);
    if update(&mut transaction, table, account).is_ok() {
        if random.chance(0.1) {
            transaction.abort();
        } else {
            let _ = transaction.commit_early().unwrap();
        }
    }
}
