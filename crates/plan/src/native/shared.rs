//! Work that is done once for all partitions of a node, by a task for each partition of an input.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use futures::TryFutureExt;
use futures::future::{BoxFuture, FutureExt, Shared};
use tokio::task::JoinSet;

use crate::node::NativeStream;

type SharedResult<T> = Result<Arc<T>, Arc<DataFusionError>>;

/// A result that all partitions of a node wait for.
///
/// The work begins when the first of them asks, goes on by itself whoever asks or not, and ends when the node and all
/// who wait have gone.
pub struct Once<T>(OnceLock<Shared<BoxFuture<'static, SharedResult<T>>>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("begun", &self.0.get().is_some()).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Once<T> {
    /// The result of `work`, or of that which an earlier call brought.
    pub fn result<F>(&self, work: impl FnOnce() -> F) -> BoxFuture<'static, Result<Arc<T>>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let begin = || {
            let work = work();
            async move { work.await.map(Arc::new).map_err(Arc::new) }.boxed().shared()
        };
        self.0.get_or_init(begin).clone().map_err(DataFusionError::Shared).boxed()
    }
}

/// Runs `consume` on every input in a task of its own; the results are in the order of the inputs.
pub async fn for_each_input<T, F>(inputs: Vec<NativeStream>, consume: impl Fn(NativeStream) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (position, input) in inputs.into_iter().enumerate() {
        let work = consume(input);
        tasks.spawn(async move { Ok::<_, DataFusionError>((position, work.await?)) });
    }
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(joined) = tasks.join_next().await {
        results.push(joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
    }
    results.sort_by_key(|(position, _)| *position);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Runs work that keeps a core busy for long on a thread where it delays nobody.
pub async fn busy<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use datafusion::common::internal_datafusion_err;
    use futures::{StreamExt, stream};
    use saki_vector::Batch;

    use super::*;

    fn run<F: Future>(work: F) -> F::Output {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
    }

    fn input(rows: usize) -> NativeStream {
        Box::pin(stream::iter((0..rows).map(|_| Ok(Batch::new(Vec::new(), 1)))))
    }

    async fn count(input: NativeStream) -> Result<usize> {
        Ok(input.map(|batch| batch.map_or(0, |batch| batch.rows)).collect::<Vec<_>>().await.iter().sum())
    }

    #[test]
    fn all_wait_for_one_run() {
        let runs = AtomicUsize::new(0);
        let once = Once::default();
        let ask = || {
            once.result(|| {
                runs.fetch_add(1, Ordering::Relaxed);
                for_each_input(vec![input(3), input(0), input(5)], count)
            })
        };
        let (first, second) = run(async { futures::join!(ask(), ask()) });
        assert_eq!(*first.unwrap(), [3, 0, 5]);
        assert_eq!(*second.unwrap(), [3, 0, 5]);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_error_reaches_everyone() {
        let once: Once<()> = Once::default();
        let ask = || once.result(|| async { Err(internal_datafusion_err!("no luck")) });
        let (first, second) = run(async { futures::join!(ask(), ask()) });
        assert!(first.unwrap_err().to_string().contains("no luck"));
        assert!(second.unwrap_err().to_string().contains("no luck"));
    }

    #[test]
    fn work_that_nobody_waits_for_stops() {
        run(async {
            let alive = Arc::new(());
            let once = Once::<Vec<()>>::default();
            let held = Arc::clone(&alive);
            let endless = move |mut input: NativeStream| {
                let held = Arc::clone(&held);
                async move {
                    while input.next().await.is_some() {}
                    drop(held);
                    Ok(())
                }
            };
            let waiting: Vec<NativeStream> = vec![Box::pin(stream::pending())];
            {
                let result = once.result(|| for_each_input(waiting, endless));
                assert!(tokio::time::timeout(Duration::from_millis(20), result).await.is_err());
            }
            assert!(Arc::strong_count(&alive) > 1);
            drop(once);
            while Arc::strong_count(&alive) > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
