//! Planning computes, and does not look up: two long statements on two threads would keep all others from being
//! served, and nobody could even cancel them. Long ones are planned on a thread of their own; what ends them is
//! [`super::interrupt`].

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Finishes work on this thread, and if it is long, leaves what else the thread was there for to another one.
pub async fn apart<T>(is_long: bool, work: impl Future<Output = T>) -> T {
    let others = Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    match others {
        Some(runtime) if is_long => block_in_place(|| runtime.block_on(work)),
        _ => work.await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Computes for a while, as planning does.
    async fn computing() -> u32 {
        std::thread::sleep(Duration::from_secs(2));
        7
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_are_served_while_something_long_is_planned() {
        let planning = tokio::spawn(apart(true, computing()));
        tokio::task::yield_now().await;
        let begun = Instant::now();
        tokio::spawn(async {}).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(planning.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_program_with_one_thread_plans_on_that() {
        assert_eq!(apart(true, computing()).await, 7);
    }
}
