//! Where a panic ends the process, and not just its statement.
//!
//! A panic is a mistake, and what it interrupts stays as it is. In most places that is one statement's own. In a few it
//! is what all others build on: rows of which some are committed, a generation that the device has and memory does not,
//! a queue of locks with a place too few, a thread that nobody would miss before it is needed. Going on from there
//! could tell clients what is not so, or leave them waiting for ever. The logs and the newest superblock hold what was
//! acknowledged: whoever opens the database next has it, and nothing of what was broken.

use std::io::Write;
use std::thread::{Builder, JoinHandle};

/// Something that has to come to its end. Dropped by a panic it says what was broken off, and ends the process.
#[must_use = "it guards what happens until it is dropped"]
#[derive(Debug)]
pub struct Critical {
    /// What is being done. `None` while a panic passes already: a second one ends the process by itself.
    doing: Option<&'static str>,
}

impl Critical {
    /// Begins something: `doing` completes "panicked while".
    #[inline]
    pub fn enter(doing: &'static str) -> Self {
        Self { doing: (!std::thread::panicking()).then_some(doing) }
    }
}

impl Drop for Critical {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(doing) = self.doing
        {
            end(doing);
        }
    }
}

/// Starts a thread that the database cannot do without: it ends when its work has, or with the process.
///
/// # Errors
/// If the system gives none.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    builder.spawn(|| {
        let _critical = Critical::enter("working for all of the database");
        work()
    })
}

/// To standard error itself: it is the server's log, and whatever else writes there may hold what the panic has broken.
#[cold]
fn end(doing: &str) -> ! {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    // If nobody hears it, the process ends all the same.
    let _ = writeln!(
        std::io::stderr(),
        "ERROR thread {name:?} panicked while {doing}. What is shared may be broken, so the process ends here; start \
         it again: opening the database brings back all that was acknowledged"
    );
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Command;

    use super::*;

    /// Runs this test program once more, for one ignored test; whether it succeeded, and what it said.
    fn child(test: &str) -> (std::process::ExitStatus, String) {
        let program = std::env::current_exe().expect("this program");
        let name = format!("limits::critical::tests::{test}");
        let output = Command::new(program).args([&name, "--exact", "--ignored", "--nocapture"]).output();
        let output = output.expect("it starts");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn what_comes_to_its_end_ends_nothing_else() {
        drop(Critical::enter("testing"));
        let fails = || {
            let _critical = Critical::enter("testing");
            "x".parse::<u32>()
        };
        assert!(fails().is_err());
        // Panics beside it, before it and after it are not its own.
        let panicked = catch_unwind(|| {
            drop(Critical::enter("testing"));
            panic!("afterwards");
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn what_is_done_while_a_panic_passes_is_not_taken_for_broken_off() {
        struct Tidy;
        impl Drop for Tidy {
            fn drop(&mut self) {
                drop(Critical::enter("tidying up"));
            }
        }
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _tidy = Tidy;
            panic!("as it was told to");
        }));
        assert!(panicked.is_err());
    }

    #[test]
    #[ignore = "ends the process: run by the test below"]
    fn broken_off() {
        let caught = catch_unwind(|| {
            let _critical = Critical::enter("testing what is critical");
            panic!("as it was told to");
        });
        // Nobody comes here.
        drop(caught);
    }

    #[test]
    #[ignore = "ends the process: run by the test below"]
    fn of_a_thread() {
        let thread = spawn(Builder::new().name("tester".into()), || panic!("as it was told to"));
        let _ = thread.expect("a thread").join();
    }

    #[test]
    fn a_panic_in_it_ends_the_process_and_says_where() {
        for (test, said) in [("broken_off", "while testing what is critical"), ("of_a_thread", "thread \"tester\"")] {
            let (status, stderr) = child(test);
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{stderr}");
            assert!(stderr.contains(said) && stderr.contains("as it was told to"), "{stderr}");
        }
    }
}
