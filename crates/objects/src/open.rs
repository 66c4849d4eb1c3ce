//! From what people write to where objects are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::{ObjectError, Objects, local};

/// How a store is dealt with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A directory that is not there is made.
    pub create: bool,
    /// How often a request that failed is done again, at most.
    pub retries: usize,
    /// For how long it is, all together.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { create: false, retries: 10, patience: Duration::from_secs(60) }
    }
}

/// Whether a target is no directory of this machine.
pub fn is_remote(target: &str) -> bool {
    target.contains("://")
}

impl Objects {
    /// Opens `target`: a directory, or `s3://bucket` or `s3://bucket/prefix`, with the credentials, region and endpoint
    /// that the usual variables of the environment name (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), or the machine's own role.
    ///
    /// # Errors
    /// `Target` if it is none; `NotFound` if the directory is not there.
    pub fn open(target: &str, options: Options) -> Result<Self, ObjectError> {
        match target.split_once("://") {
            None => Self::directory(target, options),
            Some(("s3", rest)) => Self::s3(target, rest, options),
            Some((scheme, _)) => {
                let reason = format!("{scheme}:// is not known; a target is a directory, or s3://bucket/prefix");
                Err(ObjectError::Target { target: target.to_owned(), reason })
            }
        }
    }

    fn directory(target: &str, options: Options) -> Result<Self, ObjectError> {
        let failed = |error: &std::io::Error| ObjectError::of_file(target.to_owned(), error);
        if target.is_empty() {
            return Err(ObjectError::Target { target: String::new(), reason: "names nothing".to_owned() });
        }
        if options.create {
            local::make(&PathBuf::from(target)).map_err(|error| failed(&error))?;
        }
        let directory = std::fs::canonicalize(target).map_err(|error| failed(&error))?;
        let store =
            LocalFileSystem::new_with_prefix(&directory).map_err(|error| ObjectError::of(target.to_owned(), &error))?;
        Self::over(target, Arc::new(store), Path::default(), Some(directory))
    }

    #[cfg(feature = "s3")]
    fn s3(target: &str, rest: &str, options: Options) -> Result<Self, ObjectError> {
        use object_store::RetryConfig;
        use object_store::aws::AmazonS3Builder;
        let wrong = |reason: String| ObjectError::Target { target: target.to_owned(), reason };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("names no bucket; write s3://bucket/prefix".to_owned()));
        }
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(error.to_string()))?;
        // Servers of one's own are spoken to without TLS where their address says so.
        let is_plain = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"]
            .into_iter()
            .any(|name| std::env::var(name).is_ok_and(|address| address.starts_with("http://")));
        let retries =
            RetryConfig { max_retries: options.retries, retry_timeout: options.patience, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retries);
        if is_plain {
            builder = builder.with_allow_http(true);
        }
        let store = builder.build().map_err(|error| wrong(error.to_string()))?;
        Self::over(target, Arc::new(store), prefix, None)
    }

    #[cfg(not(feature = "s3"))]
    fn s3(target: &str, _rest: &str, _options: Options) -> Result<Self, ObjectError> {
        let reason = "this program was built without S3; build it with --features s3".to_owned();
        Err(ObjectError::Target { target: target.to_owned(), reason })
    }

    fn over(
        target: &str,
        store: Arc<dyn object_store::ObjectStore>,
        prefix: Path,
        directory: Option<PathBuf>,
    ) -> Result<Self, ObjectError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("objects")
            .enable_all()
            .build()
            .map_err(|error| ObjectError::of_file(target.to_owned(), &error))?;
        Ok(Self { target: target.to_owned(), store, prefix, directory, runtime: Some(runtime) })
    }
}
