//! The few functions of OpenCL that running a kernel takes, from a library loaded at run time: nothing of it is needed to build this.

use libloading::Library;
use std::ffi::{c_char, c_void};

/// Anything OpenCL hands out.
pub(crate) type Handle = *mut c_void;
pub(crate) type Status = i32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const ALL_DEVICES: u64 = 0xffff_ffff;
pub(crate) const DEVICE_MAX_WORK_GROUP_SIZE: u32 = 0x1004;
pub(crate) const DEVICE_MAX_WORK_ITEM_SIZES: u32 = 0x1005;
pub(crate) const DEVICE_LOCAL_MEM_SIZE: u32 = 0x1023;
pub(crate) const DEVICE_NAME: u32 = 0x102B;
pub(crate) const PLATFORM_NAME: u32 = 0x0902;
pub(crate) const QUEUE_PROFILING: u64 = 2;
pub(crate) const READ_WRITE: u64 = 1;
pub(crate) const BUILD_LOG: u32 = 0x1183;
pub(crate) const KERNEL_NUM_ARGS: u32 = 0x1191;
pub(crate) const KERNEL_WORK_GROUP_SIZE: u32 = 0x11B0;
pub(crate) const KERNEL_LOCAL_MEM_SIZE: u32 = 0x11B2;
pub(crate) const PROFILING_START: u32 = 0x1282;
pub(crate) const PROFILING_END: u32 = 0x1283;

/// Names of the library, in the order they are tried.
const LIBRARIES: [&str; 4] =
    ["libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL", "OpenCL.dll"];

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty = $symbol:literal;)*) => {
        /// The functions. The library stays loaded as long as this lives.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        impl Api {
            fn of(library: Library) -> Result<Api, String> {
                Ok(Api {
                    $($name: {
                        // SAFETY: the type is that of the function in OpenCL's specification (version 1.1, which every later one keeps).
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol) };
                        *symbol.map_err(|error| format!("the OpenCL library is incomplete: {error}"))?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    platforms: fn(u32, *mut Handle, *mut u32) -> Status = b"clGetPlatformIDs";
    platform_info: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetPlatformInfo";
    devices: fn(Handle, u64, u32, *mut Handle, *mut u32) -> Status = b"clGetDeviceIDs";
    device_info: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetDeviceInfo";
    context: fn(*const isize, u32, *const Handle, *const c_void, *const c_void, *mut Status) -> Handle = b"clCreateContext";
    queue: fn(Handle, Handle, u64, *mut Status) -> Handle = b"clCreateCommandQueue";
    program: fn(Handle, u32, *const *const c_char, *const usize, *mut Status) -> Handle = b"clCreateProgramWithSource";
    build: fn(Handle, u32, *const Handle, *const c_char, *const c_void, *const c_void) -> Status = b"clBuildProgram";
    build_info: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetProgramBuildInfo";
    kernel: fn(Handle, *const c_char, *mut Status) -> Handle = b"clCreateKernel";
    kernel_info: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetKernelInfo";
    work_group_info: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetKernelWorkGroupInfo";
    argument: fn(Handle, u32, usize, *const c_void) -> Status = b"clSetKernelArg";
    buffer: fn(Handle, u64, usize, *const c_void, *mut Status) -> Handle = b"clCreateBuffer";
    write: fn(Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> Status = b"clEnqueueWriteBuffer";
    read: fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> Status = b"clEnqueueReadBuffer";
    launch: fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> Status = b"clEnqueueNDRangeKernel";
    wait: fn(u32, *const Handle) -> Status = b"clWaitForEvents";
    profiling: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status = b"clGetEventProfilingInfo";
    release_event: fn(Handle) -> Status = b"clReleaseEvent";
    release_buffer: fn(Handle) -> Status = b"clReleaseMemObject";
    release_kernel: fn(Handle) -> Status = b"clReleaseKernel";
    release_program: fn(Handle) -> Status = b"clReleaseProgram";
}

impl Api {
    /// The library of this machine; else what to do.
    pub(crate) fn load() -> Result<Api, String> {
        // SAFETY: OpenCL's loader reads its configuration when it is loaded, and loads drivers when it is first asked.
        let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let missing = "there is no OpenCL on this machine; install a driver's, or Debian's `ocl-icd-libopencl1` and \
                       `pocl-opencl-icd` (apt-get install), which run on the processor";
        Api::of(library.ok_or_else(|| missing.to_string())?)
    }
}

/// What an error number means, for those people meet.
pub(crate) fn meaning(status: Status) -> String {
    let words = match status {
        -4 => "no memory for a buffer on the device",
        -5 => "out of resources",
        -6 => "out of memory",
        -11 => "the program could not be built",
        -46 => "there is no kernel of that name",
        -48 => "the kernel is not valid",
        -50 => "an argument's value is not valid",
        -51 => "an argument has the wrong size",
        -52 => "some arguments were not given",
        -54 => "the workgroup does not divide the work, or is not what the kernel requires",
        -55 => "a side of the workgroup is too long",
        -61 => "a buffer is too large or empty",
        _ => return format!("OpenCL error {status}"),
    };
    format!("OpenCL error {status}: {words}")
}
