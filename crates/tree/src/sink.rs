//! Pages on their way to fresh chunks, counted by what they are.

use std::sync::Arc;

use saki_base::{PageRef, PageSize, Part, PartKind, TreeId};
use saki_page::{InnerBuilder, LeafBuilder, PageCache};
use saki_volume::PageWriter;

use crate::error::TreeError;

/// One page buffer, and what has been written through it.
pub(crate) struct PageSink {
    page: Vec<u8>,
    tree: TreeId,
    /// Where pages are kept that come in the place of warm ones.
    cache: Option<Arc<PageCache>>,
    /// How warm what the next pages replace is.
    pub heat: u8,
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub overflow_pages: u64,
}

impl PageSink {
    pub fn new(page_size: PageSize, tree: TreeId) -> Self {
        let page = vec![0; page_size.bytes()];
        Self { page, tree, cache: None, heat: 0, leaf_pages: 0, inner_pages: 0, overflow_pages: 0 }
    }

    /// The same for pages that replace others: they are kept in `cache` if those were looked at.
    pub fn replacing(page_size: PageSize, tree: TreeId, cache: &Arc<PageCache>) -> Self {
        Self { cache: Some(Arc::clone(cache)), ..Self::new(page_size, tree) }
    }

    /// Writes the page as one of its part.
    fn append(&self, writer: &mut PageWriter, kind: PartKind) -> Result<PageRef, TreeError> {
        let page = writer.append(Part::new(self.tree, kind), &self.page)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| self.heat > 0 && kind != PartKind::Overflow) {
            cache.keep(page, &self.page, self.heat);
        }
        Ok(page)
    }

    /// Writes the leaf and empties the builder.
    pub fn leaf(&mut self, writer: &mut PageWriter, leaf: &mut LeafBuilder) -> Result<PageRef, TreeError> {
        leaf.finish_into(&mut self.page);
        leaf.reset();
        self.leaf_pages += 1;
        self.append(writer, PartKind::Leaves)
    }

    /// Writes a leaf that `fill` makes of another one; none if it cannot.
    pub fn patched(
        &mut self,
        writer: &mut PageWriter,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<Option<PageRef>, TreeError> {
        if !fill(&mut self.page) {
            return Ok(None);
        }
        self.leaf_pages += 1;
        self.append(writer, PartKind::Leaves).map(Some)
    }

    /// Writes the inner page and empties the builder.
    pub fn inner(&mut self, writer: &mut PageWriter, inner: &mut InnerBuilder) -> Result<PageRef, TreeError> {
        inner.finish_into(&mut self.page);
        inner.reset();
        self.inner_pages += 1;
        self.append(writer, PartKind::Inner)
    }

    /// Writes an overflow page that `fill` makes.
    pub fn overflow(&mut self, writer: &mut PageWriter, fill: impl FnOnce(&mut [u8])) -> Result<PageRef, TreeError> {
        fill(&mut self.page);
        self.overflow_pages += 1;
        self.append(writer, PartKind::Overflow)
    }
}
