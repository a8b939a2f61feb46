"""What people see: one self-contained page, and tables in the terminal; drawn from
plain data only.
"""
