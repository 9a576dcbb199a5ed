"""Resources for operators: status, clients, members, hierarchy, drain."""
