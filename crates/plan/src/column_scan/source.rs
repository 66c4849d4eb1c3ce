//! Where a scan's rows come from, decided once for all partitions.

use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{StreamExt, TryFutureExt, stream};
use saki_exec::{ColumnScan, ScanExecution};
use saki_vector::Expr;
use tokio::sync::OnceCell;

use super::lookup::{self, Lookup};
use super::{condition, parts::ColumnScanParts};
use crate::native::busy;
use crate::node::{NativeStream, SakiNode, from_surface};
use saki_catalog::InPlan;
use saki_store::SegmentOverlay;

/// The rows of a scan: read, or looked up.
pub struct Source {
    parts: ColumnScanParts,
    filter: Arc<[Expr]>,
    partitions: usize,
    /// The last partition is for what lies over the segments.
    has_apart: bool,
    /// What lies over the segments.
    overlay: OnceCell<Option<Arc<SegmentOverlay>>>,
    chosen: OnceLock<Result<Chosen, Arc<DataFusionError>>>,
}

/// What was decided.
pub enum Chosen {
    Scan(Arc<ScanExecution>),
    Lookup(Box<Lookup>),
}

impl Source {
    pub fn new(parts: &ColumnScanParts, partitions: usize, has_apart: bool) -> Result<Self> {
        let filter = condition::expressions(&parts.scan)?.into();
        let (overlay, chosen) = (OnceCell::new(), OnceLock::new());
        Ok(Self { parts: parts.clone(), filter, partitions, has_apart, overlay, chosen })
    }

    /// For the same scan, run again.
    pub fn renewed(&self, parts: &ColumnScanParts) -> Self {
        self.again(parts, Arc::clone(&self.filter))
    }

    /// For the same scan with other conditions, run again.
    pub fn with_conditions(&self, parts: &ColumnScanParts) -> Result<Self> {
        Ok(self.again(parts, condition::expressions(&parts.scan)?.into()))
    }

    fn again(&self, parts: &ColumnScanParts, filter: Arc<[Expr]>) -> Self {
        Self {
            parts: parts.clone(),
            filter,
            partitions: self.partitions,
            has_apart: self.has_apart,
            overlay: OnceCell::new(),
            chosen: OnceLock::new(),
        }
    }

    /// The rows of one partition. Waits until all keys are known.
    pub fn open(
        self: Arc<Self>,
        partition: usize,
        context: Arc<TaskContext>,
        metrics: BaselineMetrics,
    ) -> NativeStream {
        let opened = async move {
            for (_, keys) in &self.parts.keys {
                keys.ready().await;
            }
            let overlay = self.overlay.get_or_try_init(|| self.overlay()).await?;
            match self.chosen.get_or_init(|| self.choose(overlay.clone()).map_err(Arc::new)) {
                Ok(Chosen::Scan(execution)) => Ok(scanned(execution, partition, metrics)),
                Ok(Chosen::Lookup(lookup)) => looked_up(lookup, partition, context, metrics),
                Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            }
        };
        Box::pin(opened.try_flatten_stream())
    }

    /// What was decided, once it has been.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.get()?.as_ref().ok()
    }

    async fn overlay(&self) -> Result<Option<Arc<SegmentOverlay>>> {
        let ColumnScanParts { env, segments, scan, .. } = &self.parts;
        if env.snapshot.delta(&scan.table).is_none() {
            return Ok(None);
        }
        let (env, table, segments) = (Arc::clone(env), Arc::clone(&scan.table), Arc::clone(segments));
        busy(move || Ok(env.snapshot.segment_overlay(env.database()?, &table, &segments)?)).await
    }

    fn choose(&self, overlay: Option<Arc<SegmentOverlay>>) -> Result<Chosen> {
        if let Some(lookup) = lookup::instead(&self.parts, self.partitions)? {
            return Ok(Chosen::Lookup(Box::new(lookup)));
        }
        let ColumnScanParts { env, segments, scan, limit, keys, .. } = &self.parts;
        let keys = keys.iter().filter_map(|(column, keys)| Some((*column, Arc::clone(keys.get()?))));
        let scan = ColumnScan {
            table: Arc::clone(segments),
            output: scan.columns.clone(),
            filter: self.filter.to_vec(),
            keys: keys.collect(),
            limit: *limit,
            snapshot: Arc::clone(&env.snapshot) as _,
            overlay: overlay.map(|overlay| overlay as _),
            overlay_apart: self.has_apart,
        };
        let partitions = self.partitions - usize::from(self.has_apart);
        Ok(Chosen::Scan(env.segment_reader.run(scan, &env.settings.execution_options(partitions))))
    }
}

fn scanned(execution: &Arc<ScanExecution>, partition: usize, metrics: BaselineMetrics) -> NativeStream {
    let mut rows = execution.open(partition);
    Box::pin(stream::poll_fn(move |context| {
        let timer = metrics.elapsed_compute().timer();
        let item = rows.poll_next(context);
        timer.done();
        item.map(|item| {
            item.map(|batch| {
                let batch = batch.in_plan()?;
                metrics.record_output(batch.rows);
                Ok(batch)
            })
        })
    }))
}

fn looked_up(
    lookup: &Lookup,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: BaselineMetrics,
) -> Result<NativeStream> {
    let rows = from_surface(lookup.pipeline.execute(partition, context)?);
    Ok(Box::pin(rows.inspect(move |batch| {
        if let Ok(batch) = batch {
            metrics.record_output(batch.rows);
        }
    })))
}
