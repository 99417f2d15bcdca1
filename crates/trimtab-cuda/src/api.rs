//! The functions of the driver we call, as its header declares them. Handles are words; nothing here is safe to call.

use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// What the driver hands out: contexts, streams, events, modules, functions.
pub(crate) type Handle = usize;
/// An address on the device.
pub(crate) type Address = u64;

macro_rules! functions {
    ($($name:ident = $symbol:literal ( $($type:ty),* $(,)? );)*) => {
        /// The functions, looked up once.
        pub(crate) struct Functions {
            $(pub $name: unsafe extern "system" fn($($type),*) -> c_uint,)*
        }

        impl Functions {
            /// All of them, or the name of the first the library does not have. `has` may hide some, for tests.
            pub(crate) fn find(library: &Library, has: &dyn Fn(&str) -> bool) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        if !has($symbol) {
                            return Err($symbol);
                        }
                        // SAFETY: the type is that of the function of this name in the driver's header.
                        let found = unsafe { library.get::<unsafe extern "system" fn($($type),*) -> c_uint>($symbol) };
                        *found.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

functions! {
    init = "cuInit"(c_uint);
    version = "cuDriverGetVersion"(*mut c_int);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut c_int, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, c_int);
    device_uuid = "cuDeviceGetUuid"(*mut [u8; 16], c_int);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, c_int);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_uint, c_int);
    context_retain = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2"(c_int);
    context_enter = "cuCtxSetCurrent"(Handle);
    memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    allocate = "cuMemAlloc_v2"(*mut Address, usize);
    allocate_unified = "cuMemAllocManaged"(*mut Address, usize, c_uint);
    free = "cuMemFree_v2"(Address);
    pin = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    unpin = "cuMemFreeHost"(*mut c_void);
    copy_in = "cuMemcpyHtoDAsync_v2"(Address, *const c_void, usize, Handle);
    copy_out = "cuMemcpyDtoHAsync_v2"(*mut c_void, Address, usize, Handle);
    copy_within = "cuMemcpyDtoDAsync_v2"(Address, Address, usize, Handle);
    fill = "cuMemsetD8Async"(Address, u8, usize, Handle);
    stream_create = "cuStreamCreate"(*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2"(Handle);
    stream_query = "cuStreamQuery"(Handle);
    event_create = "cuEventCreate"(*mut Handle, c_uint);
    event_destroy = "cuEventDestroy_v2"(Handle);
    event_record = "cuEventRecord"(Handle, Handle);
    event_query = "cuEventQuery"(Handle);
    event_elapsed = "cuEventElapsedTime"(*mut f32, Handle, Handle);
    module_load = "cuModuleLoadData"(*mut Handle, *const c_void);
    module_unload = "cuModuleUnload"(Handle);
    module_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    function_attribute = "cuFuncGetAttribute"(*mut c_int, c_uint, Handle);
    function_set = "cuFuncSetAttribute"(Handle, c_uint, c_int);
    occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(*mut c_int, Handle, c_int, usize);
    launch = "cuLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
    );
    capture_begin = "cuStreamBeginCapture_v2"(Handle, c_uint);
    capture_end = "cuStreamEndCapture"(Handle, *mut Handle);
    graph_make = "cuGraphInstantiateWithFlags"(*mut Handle, Handle, c_ulonglong);
    graph_launch = "cuGraphLaunch"(Handle, Handle);
    graph_destroy = "cuGraphDestroy"(Handle);
    graph_made_destroy = "cuGraphExecDestroy"(Handle);
    error_name = "cuGetErrorName"(c_uint, *mut *const c_char);
}
