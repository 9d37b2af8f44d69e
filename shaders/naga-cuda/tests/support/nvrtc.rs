//! NVIDIA's runtime compiler, which needs no GPU.

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetText = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The compiler's library.
pub struct Nvrtc(Library);

impl Nvrtc {
    /// Loads the library that the environment variable `NVRTC_LIBRARY` names; prints why if there is none.
    pub fn load() -> Option<Self> {
        let Some(path) = std::env::var_os("NVRTC_LIBRARY") else {
            println!("skipped: NVRTC_LIBRARY names no library; tests/scripts/nvrtc.sh fetches one");
            return None;
        };
        // SAFETY: NVRTC's initialisers have no requirements.
        let library = unsafe { Library::new(&path) };
        Some(Self(library.unwrap_or_else(|error| {
            panic!("{}: {error}", path.display())
        })))
    }

    /// Compiles a source for an architecture such as `sm_80`. Returns the compiler's log, and fails with it.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<String, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let flags = [
            &format!("--gpu-architecture={architecture}"),
            "--std=c++17",
            "--fmad=true",
            "-default-device",
            "--ptxas-options=-v",
        ];
        let flags: Vec<_> = flags
            .iter()
            .map(|flag| CString::new(*flag).unwrap())
            .collect();
        let flags: Vec<_> = flags.iter().map(|flag| flag.as_ptr()).collect();
        let mut program: Program = ptr::null_mut();
        // SAFETY: the signatures are those of nvrtc.h; all strings end in zero and live until the call returns.
        let (status, log) = unsafe {
            let create = self.0.get::<Create>(b"nvrtcCreateProgram\0").unwrap();
            let status = create(
                &mut program,
                source.as_ptr(),
                ptr::null(),
                0,
                ptr::null(),
                ptr::null(),
            );
            assert_eq!(status, 0, "nvrtcCreateProgram");
            let compile = self.0.get::<Compile>(b"nvrtcCompileProgram\0").unwrap();
            let status = compile(
                program,
                c_int::try_from(flags.len()).unwrap(),
                flags.as_ptr(),
            );
            let log = self.log(program);
            self.0.get::<Destroy>(b"nvrtcDestroyProgram\0").unwrap()(&mut program);
            (status, log)
        };
        match status {
            0 => Ok(log),
            _ => Err(log),
        }
    }

    /// # Safety
    ///
    /// The program must exist.
    unsafe fn log(&self, program: Program) -> String {
        let mut size = 0;
        // SAFETY: the log has the size that the library says, and ends in zero.
        unsafe {
            self.0.get::<GetSize>(b"nvrtcGetProgramLogSize\0").unwrap()(program, &mut size);
            let mut log = vec![0u8; size.max(1)];
            self.0.get::<GetText>(b"nvrtcGetProgramLog\0").unwrap()(
                program,
                log.as_mut_ptr().cast(),
            );
            CStr::from_bytes_until_nul(&log)
                .map_or(String::new(), |log| log.to_string_lossy().into_owned())
        }
    }
}
