//! What must hold for a page pool after every change, checked by tests.

use std::collections::{BTreeSet, HashMap};

use super::{BlockTable, PagePool};

impl PagePool {
    /// Checks the pool against the tables of all sequences that own pages.
    ///
    /// # Errors
    ///
    /// What does not hold.
    pub(crate) fn check<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a BlockTable>,
    ) -> Result<(), String> {
        let mut owners: HashMap<u32, u32> = HashMap::new();
        for table in tables {
            let own: BTreeSet<u32> = table.pages.iter().copied().collect();
            if own.len() != table.pages.len() {
                return Err(format!("a table has a page twice: {:?}", table.pages));
            }
            own.into_iter()
                .for_each(|page| *owners.entry(page).or_default() += 1);
        }
        let (free, unused) = (&self.free, self.unused.values());
        let mut idle: Vec<u32> = free.iter().chain(unused).copied().collect();
        idle.sort_unstable();
        let expected = (0..self.total_pages()).filter(|page| !owners.contains_key(page));
        if !expected.eq(idle.iter().copied()) {
            return Err(format!("pages {idle:?} are free, {owners:?} have owners"));
        }
        for (number, page) in (0..).zip(&self.pages) {
            let owned = owners.get(&number).copied().unwrap_or(0);
            if page.owners != owned {
                return Err(format!(
                    "page {number} counts {} owners of {owned}",
                    page.owners
                ));
            }
            let known = page
                .content
                .as_ref()
                .map(|(content, _)| self.known.get(content));
            if known.is_some_and(|known| known != Some(&number)) {
                return Err(format!(
                    "the content of page {number} is entered for {known:?}"
                ));
            }
            if page.content.is_some() && free.contains(&number) {
                return Err(format!("page {number} is free, but has content"));
            }
        }
        let with_content = self.pages.iter().filter(|page| page.content.is_some());
        match with_content.count() == self.known.len() {
            true => Ok(()),
            false => Err(format!("{} contents are known", self.known.len())),
        }
    }
}
