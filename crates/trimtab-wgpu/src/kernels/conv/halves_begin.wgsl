    if invocation == 0u {
        atomicStore(&odd, 0u);
    }
    workgroupBarrier();
