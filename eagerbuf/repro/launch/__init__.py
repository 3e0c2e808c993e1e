"""Real ranks on this machine: started, watched, ended; nothing of them outlives a call."""
