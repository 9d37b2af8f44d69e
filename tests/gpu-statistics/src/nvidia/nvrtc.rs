//! NVRTC, NVIDIA's compiler of CUDA C++ as a library, which needs no GPU.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr,
};

use libloading::Library;

/// The result of a call; 0 is success.
type Code = c_int;
type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Code;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> Code;
type GetBytes = unsafe extern "C" fn(Program, *mut c_char) -> Code;

/// The library.
pub struct Nvrtc {
    create: Create,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    log_size: GetSize,
    log: GetBytes,
    cubin_size: GetSize,
    cubin: GetBytes,
    /// Such as `NVRTC 13.5`.
    pub version: String,
    // The functions above are the library's.
    _library: Library,
}

/// A compiled kernel.
pub struct Compiled {
    /// The machine code, an ELF file.
    pub cubin: Vec<u8>,
    /// What the compiler printed.
    pub log: String,
}

impl Nvrtc {
    /// Loads the library from a path.
    ///
    /// # Errors
    ///
    /// If there is no NVRTC at the path.
    pub fn load(path: &str) -> Result<Nvrtc, String> {
        let missing = |error: libloading::Error| format!("{path}: {error}");
        // SAFETY: NVIDIA's library has no requirement for being loaded; the types are those of nvrtc.h.
        unsafe {
            let library = Library::new(path).map_err(missing)?;
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code =
                *library.get(b"nvrtcVersion\0").map_err(missing)?;
            let (mut major, mut minor) = (0, 0);
            check("nvrtcVersion", version(&mut major, &mut minor))?;
            Ok(Nvrtc {
                create: *library.get(b"nvrtcCreateProgram\0").map_err(missing)?,
                compile: *library.get(b"nvrtcCompileProgram\0").map_err(missing)?,
                destroy: *library.get(b"nvrtcDestroyProgram\0").map_err(missing)?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0").map_err(missing)?,
                log: *library.get(b"nvrtcGetProgramLog\0").map_err(missing)?,
                cubin_size: *library.get(b"nvrtcGetCUBINSize\0").map_err(missing)?,
                cubin: *library.get(b"nvrtcGetCUBIN\0").map_err(missing)?,
                version: format!("NVRTC {major}.{minor}"),
                _library: library,
            })
        }
    }

    /// Compiles CUDA C++ with options. Several threads may compile at once.
    ///
    /// # Errors
    ///
    /// The compiler's messages.
    pub fn compile(&self, source: &str, options: &[&str]) -> Result<Compiled, String> {
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let source = text(source)?;
        let options: Vec<CString> = options
            .iter()
            .map(|option| text(option))
            .collect::<Result<_, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = ptr::null_mut();
        // SAFETY: the texts are terminated and outlive the calls; there are no headers. The program is alive until
        // it is destroyed, and not used after that.
        unsafe {
            let code = (self.create)(
                &mut program,
                source.as_ptr(),
                ptr::null(),
                0,
                ptr::null(),
                ptr::null(),
            );
            check("nvrtcCreateProgram", code)?;
            let code = (self.compile)(program, options.len() as c_int, options.as_ptr());
            let log = output(program, self.log_size, self.log);
            let cubin = output(program, self.cubin_size, self.cubin);
            (self.destroy)(&mut program);
            let log = String::from_utf8_lossy(&log?).trim_end_matches('\0').into();
            match code {
                0 => Ok(Compiled { cubin: cubin?, log }),
                _ => Err(log),
            }
        }
    }
}

/// Fetches one of a program's outputs.
///
/// # Safety
///
/// The program is alive, and the functions are those of one of its outputs.
unsafe fn output(program: Program, size: GetSize, get: GetBytes) -> Result<Vec<u8>, String> {
    let mut bytes = 0;
    // SAFETY: as the caller guarantees; the output has the size that the library states.
    unsafe {
        check("the size of an output of NVRTC", size(program, &mut bytes))?;
        let mut output = vec![0u8; bytes];
        check(
            "an output of NVRTC",
            get(program, output.as_mut_ptr().cast()),
        )?;
        Ok(output)
    }
}

fn check(call: &str, code: Code) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call}: error {code}")),
    }
}
