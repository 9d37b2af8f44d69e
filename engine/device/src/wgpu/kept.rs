//! Pipelines that outlive the process, where the driver can give them out (Vulkan).

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use wisp_files::{CacheEntry, DiskCache};
use wisp_types::digest;

/// A driver's cache of pipelines and the file that it is kept in.
#[derive(Debug)]
pub(super) struct KeptPipelines {
    /// The file: one an adapter and driver. `None` where the driver gives nothing out.
    name: Option<String>,
    open: Mutex<Option<Open>>,
    /// Pipelines were made since the last writing.
    unsaved: AtomicBool,
}

#[derive(Debug)]
struct Open {
    cache: wgpu::PipelineCache,
    disk: DiskCache,
    /// What the file holds.
    written: Vec<u8>,
}

impl KeptPipelines {
    pub fn new(info: &wgpu::AdapterInfo, features: wgpu::Features) -> KeptPipelines {
        let can = features.contains(wgpu::Features::PIPELINE_CACHE);
        let adapter = wgpu::util::pipeline_cache_key(info).filter(|_| can);
        let name = adapter.map(|adapter| {
            let key = digest([&adapter, &info.name, &info.driver, &info.driver_info]);
            CacheEntry::Pipelines.file_name(&key)
        });
        KeptPipelines {
            name,
            open: Mutex::default(),
            unsaved: AtomicBool::new(false),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the adapter's file of a cache.
    pub fn open(&self, device: &wgpu::Device, disk: &DiskCache) {
        let Some(name) = &self.name else { return };
        let known = disk.read(name);
        let descriptor = wgpu::PipelineCacheDescriptor {
            label: Some(name),
            data: known.as_deref(),
            fallback: true,
        };
        // SAFETY: `save` writes such files, of what `get_data` returned for this adapter and driver; the
        // cache has checked that it is whole and that nobody but the user can have written it.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        *self.locked() = Some(Open {
            cache,
            disk: disk.clone(),
            written: known.unwrap_or_default(),
        });
    }

    pub fn cache(&self) -> Option<wgpu::PipelineCache> {
        self.locked().as_ref().map(|open| open.cache.clone())
    }

    /// A pipeline was made.
    pub fn made(&self) {
        self.unsaved.store(true, Ordering::Relaxed);
    }

    /// Writes what the driver knows now, if that is more than before.
    pub fn save(&self) {
        let mut open = self.locked();
        let (Some(open), Some(name)) = (open.as_mut(), &self.name) else {
            return;
        };
        if !self.unsaved.swap(false, Ordering::Relaxed) {
            return;
        }
        match open.cache.get_data() {
            Some(data) if data != open.written => {
                open.disk.write(name, &data);
                open.written = data;
            }
            _ => {}
        }
    }
}
