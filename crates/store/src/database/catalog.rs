//! Where the catalog lies in the volume.

use std::sync::Arc;

use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{TreeReader, TreeRoot};

use saki_catalog::{CATALOG_TREE, Catalog, Result, SqlError};

/// The catalog under a volume's root; an empty one where nothing has been published. Waits for storage.
pub fn read_catalog(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, root: &[u8]) -> Result<Catalog> {
    if root.is_empty() {
        return Ok(Catalog::default());
    }
    let root = catalog_root(root)?;
    let (key_layout, row_layout) = Catalog::entry_layout();
    let mut reader = TreeReader::new(cache, store, &IoShare::new(u32::MAX))?;
    let mut entries = reader.scan(&root);
    let mut documents = Vec::new();
    while let Some((key, row)) = entries.next()? {
        let corrupt = |what: String| SqlError::corrupt(format!("catalog ({CATALOG_TREE}): {what}"));
        let mut scratch = Vec::new();
        let name = key_layout.decode(key, 0, &mut scratch).map_err(|error| corrupt(error.to_string()))?;
        let json = row_layout.view(row).value(0).map_err(|error| corrupt(error.to_string()))?;
        let (saki_base::ValueRef::Text(name), saki_base::ValueRef::Bytea(json)) = (name, json) else {
            return Err(corrupt("an entry of another type".into()));
        };
        documents.push((name.to_owned(), json.to_vec()));
    }
    Catalog::from_documents(documents)
}

/// The catalog's root out of the volume's.
pub fn catalog_root(root: &[u8]) -> Result<TreeRoot> {
    TreeRoot::from_bytes(root).ok_or_else(|| {
        SqlError::corrupt(format!("the volume's root of {} bytes is no catalog", root.len()))
            .hint("the file was written by another program or version")
    })
}
