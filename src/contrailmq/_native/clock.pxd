from contrailmq._native cimport system

cpdef long long now_ms() noexcept
