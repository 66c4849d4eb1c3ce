//! Backups in a directory.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use saki_backup::{BackupReport, Wanted, backup, check, list, prune, restore};
use saki_catalog::{Result, SqlError};
use saki_store::Stop;
use support::{Sample, rows_of};

struct Target(tempfile::TempDir);

impl Target {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn name(&self) -> String {
        self.0.path().join("backups of it").display().to_string()
    }

    fn back_up(&self, sample: &Sample) -> Result<BackupReport> {
        backup(sample.db(), &self.name(), &Stop::default(), &|_| {})
    }

    fn restore(&self, name: Option<&str>, path: &Path) -> Result<()> {
        let wanted = name.map_or(Wanted::Newest, Wanted::Backup);
        restore(&self.name(), wanted, path, &Stop::default(), &|_| {}).map(drop)
    }

    fn faults(&self) -> Vec<String> {
        check(&self.name(), None, &Stop::default(), &|_| {}).expect("checked").faults
    }

    fn names(&self) -> Vec<String> {
        list(&self.name()).expect("listed").into_iter().map(|it| it.name).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from(self.name())]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("readable").flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => found.push(path),
                }
            }
        }
        found.sort_unstable();
        found
    }
}

fn refused(outcome: Result<()>) -> SqlError {
    outcome.expect_err("refused")
}

#[test]
fn each_backup_is_restored_as_it_was_and_the_next_writes_little() {
    let (target, sample, place) = (Target::new(), Sample::new(60_000), Target::new());
    let mut made = Vec::new();
    for round in 0..4 {
        let report = target.back_up(&sample).expect("backed up");
        assert!(round == 0 || report.new_objects < report.objects / 2 + 4, "{report:?}");
        made.push((report.name, 60_000 + round as u64 * 10));
        sample.add(60_000 + round * 10..60_010 + round * 10);
    }
    assert_eq!(target.names(), made.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    assert_eq!(target.faults(), Vec::<String>::new());
    for (name, rows) in &made {
        let path = place.0.path().join(name);
        target.restore(Some(name), &path).expect("restored");
        assert_eq!(rows_of(&path), *rows);
    }
    // Without a change in between all is there but the manifest, and what the logs say of being idle.
    let again = target.back_up(&sample).expect("backed up");
    let once_more = target.back_up(&sample).expect("backed up");
    assert!(once_more.new_objects <= again.objects / 2 + 4, "{once_more:?}");
}

#[test]
fn what_is_in_the_target_is_its_owners_alone() {
    let (target, sample) = (Target::new(), Sample::new(100));
    target.back_up(&sample).expect("backed up");
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(&target.name())), 0o700);
    for file in target.files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn every_flipped_bit_and_every_missing_object_is_found_and_named() {
    let (target, sample, place) = (Target::new(), Sample::new(2_000), Target::new());
    target.back_up(&sample).expect("backed up");
    let path = place.0.path().join("restored");
    let files = target.files();
    assert!(files.len() >= 3, "{files:?}");
    for file in &files {
        let whole = std::fs::read(file).expect("readable");
        let hash = file.file_name().expect("a name").to_string_lossy().into_owned();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(file, flipped).expect("written");
            let error = refused(target.restore(None, &path));
            assert!(error.message.contains(&hash) && error.sqlstate() == "XX001", "{error:?}");
            assert!(target.faults().iter().any(|fault| fault.contains(&hash)), "{:?}", target.faults());
        }
        std::fs::write(file, &whole[..whole.len() - 1]).expect("written");
        assert!(refused(target.restore(None, &path)).message.contains(&hash));
        if file.components().any(|part| part.as_os_str() == "objects") {
            std::fs::remove_file(file).expect("removed");
            let error = refused(target.restore(None, &path));
            assert!(error.message.contains(&hash) && error.message.contains("missing"), "{error:?}");
        }
        std::fs::write(file, whole).expect("written");
    }
    assert_eq!(std::fs::read_dir(place.0.path()).expect("readable").count(), 0, "an attempt leaves something");
    assert_eq!(target.faults(), Vec::<String>::new());
    target.restore(None, &path).expect("whole");
}

#[test]
fn pruning_keeps_what_kept_backups_need() {
    let (target, sample, place) = (Target::new(), Sample::new(30_000), Target::new());
    for round in 0..5 {
        target.back_up(&sample).expect("backed up");
        sample.add(30_000 + round * 500..30_500 + round * 500);
    }
    let (before, names) = (target.files().len(), target.names());
    assert_eq!(prune(&target.name(), 0, &Stop::default()).expect_err("refused").sqlstate(), "22023");
    let report = prune(&target.name(), 2, &Stop::default()).expect("pruned");
    assert_eq!((report.removed.as_slice(), report.kept.as_slice()), names.split_at(3));
    assert!(report.objects > 0 && target.files().len() == before - 3 - report.objects as usize);
    assert_eq!((target.names(), target.faults()), (names[3..].to_vec(), Vec::new()));
    for (name, rows) in names[3..].iter().zip([31_500, 32_000]) {
        let path = place.0.path().join(name);
        target.restore(Some(name), &path).expect("restored");
        assert_eq!(rows_of(&path), rows);
    }
    let again = prune(&target.name(), 2, &Stop::default()).expect("pruned");
    assert_eq!((again.removed.len(), again.objects), (0, 0));
}

#[test]
fn a_backup_and_a_pruning_keep_out_of_each_others_way() {
    let (target, sample) = (Target::new(), Sample::new(100));
    target.back_up(&sample).expect("backed up");
    let sign = |name: &str| PathBuf::from(target.name()).join("running").join(name);
    std::fs::write(sign("backup"), "").expect("as one that was interrupted leaves it");
    let error = prune(&target.name(), 1, &Stop::default()).expect_err("refused");
    assert!(error.sqlstate() == "55006" && error.hint.is_some(), "{error:?}");
    target.back_up(&sample).expect("the next backup is not in its way");
    std::fs::write(sign("prune"), "").expect("as one that was interrupted leaves it");
    assert_eq!(target.back_up(&sample).expect_err("refused").sqlstate(), "55006");
    prune(&target.name(), 1, &Stop::default()).expect("pruned to the end");
    target.back_up(&sample).expect("backed up");
    // Nobody can say what a damaged manifest needs.
    let newest = PathBuf::from(target.name()).join("backups").join(target.names().pop().expect("one"));
    std::fs::write(newest, "SAKIBKUP").expect("written");
    let files = target.files();
    assert_eq!(prune(&target.name(), 1, &Stop::default()).expect_err("refused").sqlstate(), "XX001");
    assert_eq!(target.files(), files);
}

#[test]
fn a_target_has_backups_of_one_database() {
    let (target, sample, other) = (Target::new(), Sample::new(100), Sample::new(100));
    target.back_up(&sample).expect("backed up");
    let error = target.back_up(&other).expect_err("refused");
    assert!(error.sqlstate() == "55000" && error.hint.is_some(), "{error:?}");
    assert_eq!(target.names().len(), 1);
    let place = Target::new();
    let path = place.0.path().join("restored");
    assert_eq!(refused(target.restore(Some("000009-never"), &path)).sqlstate(), "58P01");
    std::fs::write(&path, "somebody's").expect("written");
    assert_eq!(refused(target.restore(None, &path)).sqlstate(), "58P02");
    assert_eq!(std::fs::read(&path).expect("there"), b"somebody's");
}

#[test]
fn what_is_told_to_stop_makes_no_backup() {
    let (target, sample) = (Target::new(), Sample::new(30_000));
    let stop = Stop::default();
    let told = |_| stop.tell();
    let error = backup(sample.db(), &target.name(), &stop, &told).expect_err("stopped");
    assert_eq!((error.sqlstate(), target.names().len()), ("57014", 0));
    target.back_up(&sample).expect("backed up");
}
