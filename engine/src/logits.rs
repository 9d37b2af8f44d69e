//! Logits of whole texts.

use std::ops::ControlFlow;

use crate::{error::Error, events::CancelOnDrop, model::Model};

impl Model {
    /// Computes the logits of every position of a text, `[tokens, vocab_size]`. Waits until no request
    /// runs.
    ///
    /// # Errors
    ///
    /// If the tokens do not fit the context, the adapter is not loaded, a logit is not finite, or the
    /// device fails.
    pub async fn logits_async(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
    ) -> Result<Vec<f32>, Error> {
        let append = |all: &mut Vec<f32>, rows: &[f32]| all.extend_from_slice(rows);
        self.fold_logits_async(tokens, adapter, Vec::new(), append)
            .await
    }

    /// Like [`Self::logits_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn logits(&self, tokens: &[u32], adapter: Option<&str>) -> Result<Vec<f32>, Error> {
        pollster::block_on(self.logits_async(tokens, adapter))
    }

    /// Folds the logits of every position of a text without keeping them all in memory: `fold` is
    /// called with the rows `[rows, vocab_size]` of some positions at a time, in order. Waits until no
    /// request runs.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    pub async fn fold_logits_async<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        folded: T,
        mut fold: impl FnMut(&mut T, &[f32]) + Send + 'static,
    ) -> Result<T, Error> {
        let all = move |folded: &mut T, rows: &[f32]| {
            fold(folded, rows);
            ControlFlow::Continue(())
        };
        self.try_fold_logits_async(tokens, adapter, folded, all)
            .await
    }

    /// Like [`Self::fold_logits_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn fold_logits<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        folded: T,
        fold: impl FnMut(&mut T, &[f32]) + Send + 'static,
    ) -> Result<T, Error> {
        pollster::block_on(self.fold_logits_async(tokens, adapter, folded, fold))
    }

    /// Like [`Self::fold_logits_async`], but `fold` can end the computation before the end of the text.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    pub async fn try_fold_logits_async<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        mut folded: T,
        mut fold: impl FnMut(&mut T, &[f32]) -> ControlFlow<()> + Send + 'static,
    ) -> Result<T, Error> {
        let (tokens, adapter) = (tokens.to_vec(), adapter.map(String::from));
        let waits = CancelOnDrop::default();
        let dropped = waits.0.clone();
        let mut fold = move |folded: &mut T, rows: &[f32]| match dropped.is_cancelled() {
            true => ControlFlow::Break(()),
            false => fold(folded, rows),
        };
        let work = self.exclusive(move |generator| {
            Box::pin(async move {
                let adapter = adapter.map(|name| generator.adapter(&name)).transpose()?;
                let logits = generator.try_logits(&tokens, adapter, |rows| fold(&mut folded, rows));
                logits.await?;
                Ok(folded)
            })
        });
        work.await
    }

    /// Like [`Self::try_fold_logits_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn try_fold_logits<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        folded: T,
        fold: impl FnMut(&mut T, &[f32]) -> ControlFlow<()> + Send + 'static,
    ) -> Result<T, Error> {
        pollster::block_on(self.try_fold_logits_async(tokens, adapter, folded, fold))
    }
}
