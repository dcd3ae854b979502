use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use object_store::ObjectStore;
use std::sync::Arc;
use url::Url;

/// Opens the store of any URL with keys from the environment, as its own tools take them.
#[derive(Debug, Default)]
struct FromEnvironment(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for FromEnvironment {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if let Ok(known) = self.0.get_store(url) {
            return Ok(known);
        }
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?.to_ascii_lowercase(), value.into_string().ok()?))
        });
        let (store, _) = object_store::parse_url_opts(url, settings)
            .map_err(|e| DataFusionError::External(format!("{url}: {e}").into()))?;
        let store: Arc<dyn ObjectStore> = store.into();
        self.0.register_store(url, store.clone());
        Ok(store)
    }
}

/// What executors and schedulers run with.
pub(super) fn runtime() -> Result<Arc<RuntimeEnv>> {
    let stores = Arc::new(FromEnvironment::default());
    RuntimeEnvBuilder::new().with_object_store_registry(stores).build_arc()
}
