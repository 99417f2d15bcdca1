"""Writes the .ptx files of this folder: python3 compile.py path/to/libnvrtc.so"""
import ctypes, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Source, architecture, macros, name of the result.
FILES = [
    ("matmul.cu", 75, [], "matmul"),
    ("tiled.cu", 75, [], "tiled"),
    ("tiled.cu", 75, ["NO_FIRST_BARRIER"], "tiled_no_first_barrier"),
    ("tiled.cu", 75, ["NO_SECOND_BARRIER"], "tiled_no_second_barrier"),
    ("tiled.cu", 75, ["BAD_STORE"], "tiled_bad_store"),
    ("copies.cu", 80, [], "copies"),
    ("copies.cu", 80, ["NO_WAIT"], "copies_no_wait"),
    ("copies.cu", 80, ["NO_LAST_BARRIER"], "copies_no_last_barrier"),
    ("tensor.cu", 80, [], "tensor"),
    ("ldmatrix.cu", 80, [], "ldmatrix"),
    ("ldmatrix.cu", 80, ["NO_WARP_BARRIER"], "ldmatrix_no_warp_barrier"),
    ("transpose.cu", 90, ["PAD=1"], "transpose"),
    ("transpose.cu", 90, ["PAD=0"], "transpose_unpadded"),
    ("others.cu", 75, [], "others"),
    ("bugs.cu", 75, [], "bugs"),
]


def compiled(nvrtc, source, arch, macros):
    program = ctypes.c_void_p()
    text = open(os.path.join(HERE, source)).read().encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None) == 0
    options = [f"--gpu-architecture=compute_{arch}", "--std=c++17", "-lineinfo", *(f"-D{macro}" for macro in macros)]
    options = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), options)
    what = "ProgramLog" if failed else "PTX"
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    if failed:
        sys.exit(buffer.value.decode())
    return buffer.value.decode()


if __name__ == "__main__":
    nvrtc = ctypes.CDLL(sys.argv[1])
    for source, arch, macros, name in FILES:
        lines = compiled(nvrtc, source, arch, macros).splitlines()
        # Lines of the source, but no debug sections.
        end = next((at for at, line in enumerate(lines) if line.startswith((".file", "\t.file"))), len(lines))
        with open(os.path.join(HERE, name + ".ptx"), "w") as out:
            out.write("\n".join(line.rstrip() for line in lines[:end]).rstrip() + "\n")
