//! Files that are not what was written: refused or checked, never believed, never a panic.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::{LINES, check, lines_expected, saki, sql, tpch};

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn a_truncated_file_is_refused_or_its_missing_pages_are_named() {
    let (_directory, path) = tpch();
    let whole = length(&path);
    for share in [0.9, 0.5, 0.1] {
        let length = (whole as f64 * share) as u64 / 4096 * 4096;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        let said = check(&path);
        // The end of the file may have held nothing; then all is well.
        match said.success {
            true => assert_eq!(sql(&path, LINES).answer(), lines_expected()),
            false => assert!(said.failure().contains("test.saki")),
        }
    }
    for length in [100, 0] {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        assert!(check(&path).failure().contains("test.saki"));
        assert!(sql(&path, LINES).failure().contains("test.saki"));
    }
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let (_directory, path) = tpch();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // Both superblocks, and the copy of each.
    for place in [0, 262_144, 524_288, 917_504] {
        file.write_all_at(&[b'x'; 4096], place).unwrap();
    }
    assert!(check(&path).failure().contains("not a Sakigake database"));
    std::fs::write(&path, "id,name\n1,x\n").unwrap();
    assert!(sql(&path, LINES).failure().contains("not a Sakigake database"));
}

/// Bits are flipped one page at a time: in pages that are known to be in use, where `check` must find every one, and
/// all over what has been written, part of which nothing refers to any more. No query may answer wrongly.
#[test]
fn flipped_bits_are_found_and_never_answered_with() {
    const FLIPS: usize = 12;
    let (_directory, path) = tpch();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let content = std::fs::read(&path).unwrap();
    let (used, written) = (used_pages(&path), written_pages(&content));
    let chosen = |pages: &[u64], flip: usize| pages[pages.len() * flip / FLIPS];
    let in_use = (0..FLIPS).map(|flip| (chosen(&used, flip), true));
    let anywhere = (0..FLIPS).map(|flip| (chosen(&written, flip), false));
    for (flip, (page, is_used)) in in_use.chain(anywhere).enumerate() {
        // Not in the zeros that fill up a run's last page: nothing reads those.
        let within = 1000 + flip as u64 * 37;
        let position = (page..=page + within).rev().find(|at| content[*at as usize] != 0).unwrap_or(page);
        let mut byte = [0];
        file.read_exact_at(&mut byte, position).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << (flip % 8))], position).unwrap();
        let checked = check(&path);
        let answered = sql(&path, LINES);
        if answered.success {
            assert_eq!(answered.out, lines_expected());
        } else {
            let said = answered.failure();
            assert!(said.contains("page") && said.contains("corrupt"), "{said}");
            assert!(!checked.success, "a query found what check did not: {said}");
        }
        if checked.success {
            assert!(!is_used, "the flip at byte {position} was not found");
        } else {
            let said = checked.failure();
            assert!(said.contains("page") && said.contains("corrupt"), "{said}");
        }
        file.write_all_at(&byte, position).unwrap();
    }
    check(&path).answer();
}

/// Where pages begin that tables refer to: roots of trees, and the first page of each column of each segment.
fn used_pages(path: &Path) -> Vec<u64> {
    let database = saki::Database::open(path, saki::OpenOptions { read_only: true, ..Default::default() }).unwrap();
    let generation = database.generation();
    let mut pages = Vec::new();
    for table in generation.catalog.tables() {
        pages.extend(table.root.root.map(|root| root.address));
        let segments = generation.segments(table).unwrap().expect("columns are on unless told otherwise");
        pages.extend(segments.segments.iter().flat_map(|segment| segment.columns.iter().map(|run| run.first_page)));
    }
    let volume = database.volume();
    let position = |page| volume.locate(page).unwrap().offset() + volume.page_size().offset_in_chunk(page) as u64;
    pages.into_iter().map(position).collect()
}

/// Where the run of a column of `lineitem`'s first segment begins in the file.
fn run_position(path: &Path, column: usize) -> u64 {
    let database = saki::Database::open(path, saki::OpenOptions { read_only: true, ..Default::default() }).unwrap();
    let generation = database.generation();
    let table = generation.catalog.table("lineitem").unwrap();
    let segments = generation.segments(table).unwrap().expect("columns are on unless told otherwise");
    let page = segments.segments[0].columns[column].first_page;
    let volume = database.volume();
    volume.locate(page).unwrap().offset() + volume.page_size().offset_in_chunk(page) as u64
}

#[test]
fn a_flipped_bit_in_a_run_is_found_by_table_segment_and_column() {
    const COMMENT: usize = 15;
    let (_directory, path) = tpch();
    let position = run_position(&path, COMMENT) + 1000;
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, position).unwrap();
    file.write_all_at(&[byte[0] ^ 4], position).unwrap();
    let said = check(&path).failure();
    let place = "lineitem: segment 0 from (l_orderkey, l_linenumber)=(1, 1) on, column \"l_comment\": ";
    assert!(said.contains(place) && said.contains("corrupt") && said.contains("1 fault"), "{said}");
    // What the segment holds a second time is made anew from the rows.
    sql(&path, "ALTER TABLE lineitem SET (columns = off); ALTER TABLE lineitem SET (columns = on)").answer();
    check(&path).answer();
}

/// Where pages with anything in them begin, behind the superblocks' first MiB. Most of a small
/// database's file is room that is reserved and was never written.
fn written_pages(file: &[u8]) -> Vec<u64> {
    let pages = file.chunks(8192).enumerate().skip(128);
    pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(index, _)| index as u64 * 8192).collect()
}

/// The places of superblocks, two for the generations of each parity.
const SUPERBLOCKS: [[u64; 2]; 2] = [[0, 256 << 10], [512 << 10, 896 << 10]];

fn flip(path: &Path, position: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, position).unwrap();
    file.write_all_at(&[byte[0] ^ 4], position).unwrap();
}

/// The places of the newest superblock.
fn newest_superblock(path: &Path) -> [u64; 2] {
    let bytes = std::fs::read(path).unwrap();
    let generation = |[first, _]: [u64; 2]| u64::from_le_bytes(bytes[first as usize + 32..][..8].try_into().unwrap());
    SUPERBLOCKS.into_iter().max_by_key(|places| generation(*places)).unwrap()
}

#[test]
fn a_flipped_bit_in_a_superblock_is_reported_and_mended() {
    let (_directory, path) = tpch();
    for place in SUPERBLOCKS.into_iter().flatten() {
        flip(&path, place + 100);
        let said = check(&path).failure();
        assert!(said.contains(&format!("the superblock at byte {place}")) && said.contains("1 fault"), "{said}");
        assert_eq!(sql(&path, LINES).answer(), lines_expected());
        saki(["recover".as_ref(), path.as_os_str()]).answer();
        check(&path).answer();
    }
}

#[test]
fn a_newest_generation_that_has_rotted_is_gone_back_on_only_when_told_to() {
    let (_directory, path) = tpch();
    sql(&path, "CREATE TABLE last (id int PRIMARY KEY)").answer();
    for place in newest_superblock(&path) {
        flip(&path, place + 100);
    }
    for said in [check(&path), sql(&path, LINES), saki(["recover".as_ref(), path.as_os_str()])] {
        let said = said.failure();
        assert!(said.contains("both superblocks") && said.contains("accept the loss"), "{said}");
    }
    saki(["recover".as_ref(), "--accept-loss".as_ref(), path.as_os_str()]).answer();
    check(&path).answer();
    assert_eq!(sql(&path, LINES).answer(), lines_expected());
}

/// A database whose last changes are in its logs only: its process was killed.
fn with_logs() -> (tempfile::TempDir, std::path::PathBuf) {
    let (directory, path) = crate::support::scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, name text)").answer();
    let insert: String =
        (0..200).map(|id| format!("INSERT INTO t VALUES ({id}, 'the name of number {id}');\n")).collect();
    // The statement that takes long is not over when the process is killed.
    let long = "SELECT count(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    let mut child = crate::support::command()
        .args(["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "-c".as_ref(), format!("{insert}{long}").as_ref()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let log = log_of(&path);
    let last = "the name of number 199";
    let began = std::time::Instant::now();
    while !std::fs::read(&log).is_ok_and(|bytes| position_of(&bytes, last).is_some()) {
        assert!(began.elapsed().as_secs() < 120, "nothing is logged");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    (directory, path)
}

fn log_of(database: &Path) -> std::path::PathBuf {
    std::path::PathBuf::from(format!("{}.log/log-0", database.display()))
}

fn position_of(bytes: &[u8], text: &str) -> Option<u64> {
    bytes.windows(text.len()).position(|part| part == text.as_bytes()).map(|at| at as u64)
}

#[test]
fn a_rotten_log_is_found_and_its_loss_can_be_accepted() {
    let (_directory, path) = with_logs();
    let said = check(&path).answer();
    assert!(said.contains("transactions in the logs"), "{said}");
    let log = log_of(&path);
    let position = position_of(&std::fs::read(&log).unwrap(), "the name of number 100").unwrap();
    flip(&log, position);
    let said = check(&path).failure();
    assert!(said.contains("logs: the record of timestamp") && said.contains("1 fault"), "{said}");
    assert!(sql(&path, "SELECT count(*) FROM t").failure().contains("accept the loss"));
    assert!(saki(["recover".as_ref(), path.as_os_str()]).failure().contains("--accept-loss"));
    let said = saki(["recover".as_ref(), "--accept-loss".as_ref(), path.as_os_str()]).answer();
    assert!(said.contains("lost: what was durable from timestamp"), "{said}");
    check(&path).answer();
    let count: u64 =
        sql(&path, "SELECT count(*) AS n FROM t").answer().trim_start_matches("n\n").trim().parse().unwrap();
    assert!((1..=100).contains(&count), "{count}");
}

/// Logs from a copy older than the file: what they lack is not passed by in silence.
#[test]
fn logs_that_are_gone_or_older_than_the_file_are_missed() {
    let (_directory, path) = with_logs();
    let log = log_of(&path);
    let length = length(&log);
    let older = std::fs::read(&log).unwrap();
    // All of it, as if the file had just been made.
    std::fs::write(&log, vec![0; length as usize]).unwrap();
    assert!(check(&path).failure().contains("the logs are empty"));
    assert!(sql(&path, "INSERT INTO t VALUES (1000, 'x')").failure().contains("the logs are empty"));
    std::fs::write(&log, older).unwrap();
    sql(&path, "INSERT INTO t VALUES (1000, 'x')").answer();
    assert_eq!(sql(&path, "SELECT count(*) AS n FROM t").answer(), "n\n201\n");
}
