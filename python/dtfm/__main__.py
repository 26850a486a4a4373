from dtfm.programs import plan

plan()
