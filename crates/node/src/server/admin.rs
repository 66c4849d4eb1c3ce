//! Metrics and health over HTTP, for those who watch the server.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics` and `/health` until `stop` ends.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, stop: impl Future<Output = ()> + Send + 'static) {
    let router = Router::new()
        .route("/metrics", get(async move || ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text())))
        .route("/health", get(async || "ok\n"));
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop).await {
        tracing::warn!(%error, "the admin port is served no longer");
    }
}
