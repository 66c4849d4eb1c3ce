//! The catalog: damaged, gone, or of a later program. Nothing is opened on a guess.

use std::fs;
use std::path::Path;

use saki_mvcc::{Catalog, Database, Error, Isolation};

use crate::suite::fixture::{account, accounts, insert};
use crate::suite::support::options;

fn open(directory: &Path) -> Result<Database, Error> {
    Database::open(directory, options(), &|_| {})
}

fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let table = database.create_table(accounts()).unwrap();
    let mut runner = database.runner().unwrap();
    runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 0)).map(drop)).unwrap();
    directory
}

fn message(directory: &Path) -> String {
    let error = open(directory).map(drop).unwrap_err();
    assert!(matches!(error, Error::Open { .. } | Error::Log(_)), "{error:?}");
    error.to_string()
}

#[test]
fn a_damaged_catalog_is_told() {
    let directory = filled();
    let path = directory.path().join("catalog.json");
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"{}", &[0xff; 40]] {
        fs::write(&path, damaged).unwrap();
        let message = message(directory.path());
        assert!(message.contains("catalog.json"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "it was written over");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(open(directory.path()).unwrap().tables().len(), 1);
}

#[test]
fn another_format_is_told() {
    let directory = filled();
    let path = directory.path().join("catalog.json");
    let later = fs::read_to_string(&path).unwrap().replacen("\"format\": 1", "\"format\": 2", 1);
    fs::write(&path, later).unwrap();
    let message = message(directory.path());
    assert!(message.contains("format 2"), "{message}");
}

/// A new catalog would be another database's, and its logs are not: they are not written over.
#[test]
fn without_its_catalog_nothing_is_opened() {
    let directory = filled();
    let path = directory.path().join("catalog.json");
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let message = message(directory.path());
    assert!(message.contains("another database") || message.contains("catalog"), "{message}");
    fs::write(&path, whole).unwrap();
    assert_eq!(open(directory.path()).unwrap().recovery().records, 1);
}

/// That it cannot be read says nothing about whether there is one.
#[test]
#[cfg(unix)]
fn a_catalog_that_cannot_be_read_is_not_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.json");
    // Nobody comes to the end of it.
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let message = message(directory.path());
    assert!(message.contains("catalog.json"), "{message}");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "it was written over");
}

/// Before anything counts that goes by it.
#[test]
fn a_new_catalog_is_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let within = directory.path().join("a new/directory");
    let database = Catalog::open(&within, 2).unwrap().database();
    let again = Catalog::open(&within, 3).unwrap();
    assert_eq!((again.database(), again.logs()), (database, 2));
}

#[test]
fn a_table_that_could_not_be_written_down_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(directory.path(), 1).unwrap();
    fs::remove_dir_all(directory.path()).unwrap();
    let outcome = catalog.add(accounts()).map(drop);
    assert!(matches!(outcome, Err(Error::Open { .. })), "{outcome:?}");
    fs::create_dir(directory.path()).unwrap();
    assert_eq!(catalog.add(accounts()).unwrap().id().0, 0);
    assert_eq!(open(directory.path()).unwrap().tables().len(), 1);
}

/// A crash while the catalog was replaced leaves what was being written beside it.
#[test]
fn half_a_new_catalog_is_passed_by() {
    let directory = filled();
    fs::write(directory.path().join("catalog.new"), b"{ \"format\"").unwrap();
    let database = open(directory.path()).unwrap();
    assert_eq!(database.tables().len(), 1);
    let mut other = accounts();
    other.name = "others".into();
    database.create_table(other).unwrap();
    let again = accounts();
    assert!(matches!(database.create_table(again), Err(Error::Name { .. })));
    drop(database);
    assert_eq!(open(directory.path()).unwrap().tables().len(), 2);
}

#[test]
fn a_definition_that_contradicts_itself_is_refused() {
    let directory = filled();
    let database = open(directory.path()).unwrap();
    type Change = fn(&mut saki_mvcc::TableDefinition);
    let changes: [Change; 8] = [
        |table| table.primary_key.clear(),
        |table| table.primary_key = vec![0, 0],
        |table| table.primary_key = vec![0, 1, 0],
        |table| table.primary_key = vec![9],
        |table| table.primary_key = vec![2],
        |table| table.indexes[0].columns = vec![7],
        |table| table.indexes[0].name = "by_email".into(),
        |table| table.indexes.push(table.indexes[0].clone()),
    ];
    for change in changes {
        let mut definition = accounts();
        definition.name = "others".into();
        change(&mut definition);
        let error = database.create_table(definition).map(drop).unwrap_err();
        assert!(matches!(error, Error::Name { .. }), "{error}");
    }
    assert_eq!(database.tables().len(), 1);
}
